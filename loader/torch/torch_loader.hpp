// Loads TorchScript archives: looks them over, lets libtorch read them under a meter, checks what came out.
// Chooses nothing: which model, when and whether there is room is the cache's business.
#pragma once

#include <cstddef>
#include <memory>

#include "loader/model.hpp"
#include "loader/torch/memory_account.hpp"

namespace mme::loader {

/// Needs start_torch_runtime(). Members as ModelLoader says; several threads at once.
class TorchLoader final : public ModelLoader {
 public:
  /// `step`: bytes by which loads and calls ask their grant for more; fewer means more traffic with the cache.
  explicit TorchLoader(std::size_t step = MemoryAccount::default_step) : step_(step) {}

  [[nodiscard]] Result<Estimate> estimate(const ModelSpec& spec) const override;
  [[nodiscard]] Result<std::unique_ptr<Model>> load(const ModelSpec& spec, LoadContext& context) const override;

 private:
  std::size_t step_;
};

}  // namespace mme::loader
