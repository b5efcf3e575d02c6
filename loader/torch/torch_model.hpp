// A loaded TorchScript module that can be called, with its memory metered per call.
// Does not load; does not queue, lock or retry: the cache keeps calls of a stateful model apart.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <memory>
#include <vector>

#include "loader/model.hpp"
#include "loader/torch/code_pool.hpp"
#include "loader/torch/memory_account.hpp"
#include "loader/torch/state_analysis.hpp"
#include "loader/torch/weight_map.hpp"

namespace mme::loader {

class TorchModel final : public Model {
 public:
  /// `module` has a forward and is in eval mode. `kept` is the credit of the account that paid for loading it.
  TorchModel(torch::jit::Module module, const WriteReport& writes, bool optimize, std::size_t step,
             std::shared_ptr<KeptBytes> kept);

  Result<TensorMap> infer(const TensorMap& inputs, CallContext& context) override;
  [[nodiscard]] const Signature& signature() const override { return signature_; }
  [[nodiscard]] Footprint footprint() const override { return footprint_; }
  [[nodiscard]] bool stateless() const override { return stateless_; }
  [[nodiscard]] bool usable() const noexcept override { return !lost(); }

  [[nodiscard]] const torch::jit::Module& module() const noexcept { return module_; }

  /// All once, by the loader, before anybody else sees the model.
  void set_way(LoadWay way, std::string reason);
  /// The maps that weights lie in, and how much of them; `shared`: as segments of the cache.
  void set_maps(std::vector<std::shared_ptr<WeightMap>> maps, std::size_t bytes, std::vector<Segment> shared);
  void set_bytes(std::size_t tensors, std::size_t code);
  /// `wrote` is called when a call of it wrote to weights that it was thought to read only; from any thread, maybe
  /// often.
  void on_unseen_write(std::function<void()> wrote);
  /// The code that it runs, when others may run it too; kept as long as the model.
  void share_code(std::shared_ptr<CodeUnit> code);

 private:
  Result<TensorMap> run(const TensorMap& inputs, const std::vector<Bound>& bound, MemoryAccount& call,
                        MemoryAccount& outputs);
  Result<TensorMap> run_unguarded(const TensorMap& inputs, const std::vector<Bound>& bound, MemoryAccount& call,
                                  MemoryAccount& outputs);

  void close(MemoryAccount& call, bool succeeded) noexcept;
  [[nodiscard]] bool lost() const noexcept;
  [[nodiscard]] Error gone(const MemoryAccount* call) const;

  std::shared_ptr<CodeUnit> code_;  // null: its code is its own
  torch::jit::Module module_;
  torch::jit::Method forward_;
  Signature signature_;
  Footprint footprint_;
  std::vector<std::shared_ptr<WeightMap>> maps_;  // that weights lie in
  const bool stateless_;
  std::vector<bool> copied_arguments_;
  const bool optimize_;
  const std::size_t step_;
  std::shared_ptr<KeptBytes> kept_;
  std::function<void()> wrote_;
};

}  // namespace mme::loader
