// The straight path of a request: name -> artifact -> lease -> run -> answer; and the admin calls beside it.
// Decides nothing about memory (cache/) and knows no protocol (dialects/).
#pragma once

#include <atomic>
#include <functional>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "cache/model_cache.hpp"
#include "loader/repository/catalog.hpp"
#include "server/inference/model_service.hpp"
#include "server/inference/worker_pool.hpp"

namespace mme::server {

struct InferenceOptions {
  std::chrono::milliseconds room_wait{30'000};  ///< ready() turns false when a load waits twice as long
  /// Settings of a model by name; called on every look-up, from io threads.
  std::function<loader::ModelSettings(const std::string&)> settings;
};

/// Thread-safe. The catalog, the cache and the pool must outlive it.
class InferenceService final : public ModelService {
 public:
  InferenceService(loader::Catalog& catalog, cache::ModelCache& cache, WorkerPool& compute, InferenceOptions options);

  asio::awaitable<Result<InferenceResult>> infer(ModelRef model, loader::TensorMap inputs, Deadline deadline,
                                                 AccessRecord& record) override;
  asio::awaitable<Result<ModelInfo>> load(ModelRef model, std::optional<std::string> url, Deadline deadline) override;
  asio::awaitable<Result<void>> unload(ModelRef model, Deadline deadline) override;
  Result<ModelInfo> describe(const ModelRef& model) override;
  std::vector<ModelInfo> in_memory() override;
  std::vector<ModelInfo> index() override;
  bool ready() override;
  bool accepting() override;

  /// Start-up work is done / the server begins to drain.
  void set_started() noexcept { started_ = true; }
  void set_draining() noexcept { draining_ = true; }

 private:
  Result<loader::ModelSpec> resolve(const ModelRef& model) const;
  void learn_outputs(const std::string& name, const loader::TensorMap& outputs);
  ModelInfo info_of(const cache::EntryStatus& entry) const;
  ModelInfo absent(const loader::StoredModel& stored) const;
  void add_signature(ModelInfo& info, const std::optional<std::string>& version) const;

  loader::Catalog& catalog_;
  cache::ModelCache& cache_;
  WorkerPool& compute_;
  InferenceOptions options_;
  std::atomic<bool> started_{false};
  std::atomic<bool> draining_{false};
  mutable std::shared_mutex outputs_mutex_;
  /// What the first answer of a model looked like, for its metadata; bounded.
  std::unordered_map<std::string, std::vector<loader::TensorInfo>> known_outputs_;
};

}  // namespace mme::server
