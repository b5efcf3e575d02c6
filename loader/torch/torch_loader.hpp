// Loads TorchScript archives: looks them over, lets libtorch read them under a meter, checks what came out.
// Chooses nothing: which model, when and whether there is room is the cache's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "loader/model.hpp"
#include "loader/torch/memory_account.hpp"
#include "loader/torch/weight_map.hpp"

namespace mme::loader {

struct LoaderOptions {
  /// Bytes by which loads and calls ask their grant for more; fewer means more traffic with the cache.
  std::size_t step = MemoryAccount::default_step;
  /// Files of at least so many bytes are mapped; smaller ones are copied, for a map costs pages and system calls.
  std::uint64_t map_from = std::uint64_t{1} << 20;
  /// Mapped weights are brought into memory by the load; without, by the calls that first need them.
  bool prefault = true;
  MapPolicy map = MapPolicy::leased;
  /// Models hold together what they have in common.
  bool share = true;
};

struct ArchivePlan;
class CodePool;
class WeightPool;

/// Needs start_torch_runtime(). Members as ModelLoader says; several threads at once. Models may outlive it.
class TorchLoader final : public ModelLoader {
 public:
  explicit TorchLoader(LoaderOptions options = {});

  [[nodiscard]] Result<Estimate> estimate(const ModelSpec& spec) const override;
  [[nodiscard]] Result<std::unique_ptr<Model>> load(const ModelSpec& spec, LoadContext& context) const override;

 private:
  [[nodiscard]] Estimate estimate_of(const ArchivePlan& plan, const ModelSpec& spec) const;

  LoaderOptions options_;
  std::shared_ptr<CodePool> codes_;
  std::shared_ptr<WeightPool> weights_;
};

}  // namespace mme::loader
