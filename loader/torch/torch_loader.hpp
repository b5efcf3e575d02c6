// Loads TorchScript archives: looks them over, lets libtorch read them under a meter, checks what came out.
// Chooses nothing: which model, when and whether there is room is the cache's business.
#pragma once

#include "loader/model.hpp"

namespace mme::loader {

/// Needs start_torch_runtime(). Members as ModelLoader says; several threads at once.
class TorchLoader final : public ModelLoader {
 public:
  [[nodiscard]] Result<Estimate> estimate(const ModelSpec& spec) const override;
  [[nodiscard]] Result<std::unique_ptr<Model>> load(const ModelSpec& spec, LoadContext& context) const override;
};

}  // namespace mme::loader
