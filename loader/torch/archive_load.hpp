// One load, from an open archive to a model that can be called: which way its weights and its code come in, and why.
// Paid for by the accounts that it is given; asks for no room itself.
#pragma once

#include <memory>
#include <string>

#include "loader/torch/archive_check.hpp"
#include "loader/torch/artifact_file.hpp"
#include "loader/torch/code_pool.hpp"
#include "loader/torch/memory_account.hpp"
#include "loader/torch/torch_loader.hpp"
#include "loader/torch/torch_model.hpp"
#include "loader/torch/weight_load.hpp"

namespace mme::loader {

struct ArchiveLoad {
  const ArtifactFile& file;
  const ArchivePlan& plan;
  const ModelSpec& spec;
  LoadContext& context;
  const LoaderOptions& options;
  const std::shared_ptr<CodePool>& codes;
  WeightPool& weights;
  MemoryAccount& account;                  ///< of the model
  const std::shared_ptr<KeptBytes>& kept;  ///< where the account's credit will go
  MemoryAccount& code_account;             ///< of the code, when it is to be shared
};

struct LoadedArchive {
  std::unique_ptr<TorchModel> model;
  std::shared_ptr<CodeUnit> code;        ///< null: the code is the model's own
  bool code_is_new = false;              ///< compiled by this load: to be closed, charged and then published
  std::unique_ptr<CodePool::Turn> turn;  ///< until then others wait for it
  std::unique_ptr<WeightLoad> weights;   ///< null: all are copies
};

/// What libtorch throws ends here. Errors: model_broken; settling: the file is being changed.
/// The thread must have entered libtorch, see enter_torch_thread().
[[nodiscard]] Result<LoadedArchive> load_archive(const ArchiveLoad& load);

/// "the model cannot be loaded: " and why.
[[nodiscard]] Error broken(const std::string& why);
[[nodiscard]] Error being_changed();

}  // namespace mme::loader
