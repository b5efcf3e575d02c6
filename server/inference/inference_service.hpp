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
#include "server/config/settings.hpp"
#include "server/inference/model_service.hpp"
#include "server/inference/worker_pool.hpp"

namespace mme::server {

/// Functions are called on every look-up, from io threads; settings may change between two calls.
struct InferenceOptions {
  /// ready() turns false when a load waits twice as long.
  std::function<std::chrono::milliseconds()> room_wait = [] { return std::chrono::milliseconds(30'000); };
  /// Settings of a model by name and the url that it is loaded by, if any; an error makes that model unusable.
  std::function<Result<ModelOptions>(const std::string& name, const std::optional<std::string>& url)> options;
  /// The model that a name stands for; the name itself unless it is an alias.
  std::function<std::string(const std::string& name)> real_name;
  /// Mode platform: only what was loaded exists.
  bool only_loaded = false;
  /// Mode single: /ping is green only when the start-up work is done.
  bool accepting_when_started = false;
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
  std::vector<ModelInfo> repository() override;
  std::optional<loader::DataType> first_input_type(const ModelRef& model) override;
  bool ready() override;
  bool accepting() override;
  bool draining() override { return draining_; }

  /// Start-up work is done / the server begins to drain.
  void set_started() noexcept { started_ = true; }
  void set_draining() noexcept { draining_ = true; }

 private:
  /// An artifact with the settings that hold for it.
  struct Found {
    loader::ModelSpec spec;
    ModelOptions options;
  };
  /// The artifact as the settings of this moment want it to be treated.
  static Found with_options(loader::ModelSpec spec, ModelOptions options);
  Result<Found> resolve(const ModelRef& model, const std::optional<std::string>& url = std::nullopt) const;
  [[nodiscard]] ModelRef real(ModelRef model) const;
  [[nodiscard]] Result<ModelOptions> options_of(const std::string& name, const std::optional<std::string>& url) const;
  std::vector<ModelInfo> list(bool with_disk) const;
  /// The model in memory under that name, when the file that should replace it is being written or cannot be loaded.
  [[nodiscard]] std::optional<Found> not_replaced(const ModelRef& model, const Error& error) const;
  [[nodiscard]] bool holds(const loader::ModelSpec& spec) const;
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
