// Holds a model of ours against torch::jit::load of the same file, bit for bit.
// Keeps libtorch's headers (and their macros) out of the suites.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "loader/model.hpp"

namespace mme::test {

/// The first difference between what our loader made (`model`, from TorchLoader) and what libtorch's own loader makes
/// of `file`: graphs and their constants, the tree of objects with every tensor's bytes and form and which of them
/// share memory, then the answers to a few inputs. "" when there is none. `shape` is that of the one FP32 argument;
/// without one, arguments are made from the signature.
[[nodiscard]] std::string difference_from_plain(const loader::Model& model, const std::string& file,
                                                const std::vector<std::int64_t>& shape = {});

/// The example models of the demo, one of each kind, written into `folder`: their files.
[[nodiscard]] std::vector<std::string> write_example_kinds(const std::string& folder);

/// Test models that are safe to load and run, written into `folder`: their files.
[[nodiscard]] std::vector<std::string> write_safe_test_models(const std::string& folder);

}  // namespace mme::test
