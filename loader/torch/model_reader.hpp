// Reads the module of a TorchScript archive without torch::jit::load, so that each weight may be mapped or copied.
// Uses libtorch's own unpickler and compiler; decides only where tensors lie.
#pragma once

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <stop_token>
#include <vector>

#include "loader/torch/archive_check.hpp"
#include "loader/torch/weight_load.hpp"

namespace mme::loader {

struct ArchiveParts {
  caffe2::serialize::PyTorchStreamReader& reader;
  const ArchivePlan& plan;
  const WeightLoad* weights;  ///< where weights lie that are not copied; null: all are copied
  std::stop_token stop;       ///< looked at between records
  /// The archive's code, compiled for another model; null: it is compiled. Then constants are copied, for they stay in
  /// the code, and the archive must not need a class that the other model did not have.
  std::shared_ptr<torch::jit::CompilationUnit> compiled = nullptr;
  MemoryAccount* code_account = nullptr;  ///< pays for what is compiled; null: whoever pays for the rest
};

struct ReadModule {
  torch::jit::Module module;
  std::vector<c10::Storage> storages;  ///< of the plan's weights, by their numbers
};

/// A storage's new place, kept by it; only before anybody computes with it.
void point_to(c10::Storage& storage, const WeightPlace& place);

/// The same for a copy of what it holds, charged to the current account. Throws std::bad_alloc.
void make_own(c10::Storage& storage);

/// Like torch::jit::load to the CPU, for archives of version 3 and later without model.json and old quantized
/// convolutions. A storage has the size of its record, whatever the pickle says of it. Throws what libtorch throws, and
/// whenever the archive is not as expected; runs the model's `__setstate__`.
[[nodiscard]] ReadModule read_module(const ArchiveParts& parts);

}  // namespace mme::loader
