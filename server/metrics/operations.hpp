// What operators read: GET /metrics, GET /status, GET /repository/models. Reads only; changes nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cache/model_cache.hpp"
#include "server/http/router.hpp"
#include "server/inference/model_service.hpp"
#include "server/metrics/metrics.hpp"

namespace mme::server {

/// Facts of the process, shown by /status. They do not change while it runs, but for where the budget comes from.
struct ProcessFacts {
  std::string version;
  std::string mode;
  std::string budget_origin;
  std::size_t reserve_bytes = 0;
};

class Operations final : public Dialect {
 public:
  Operations(std::function<ProcessFacts()> facts, Metrics& metrics, MetricsSources sources, ModelService& models);

  [[nodiscard]] std::string_view name() const noexcept override { return "operations"; }
  [[nodiscard]] std::vector<Route> routes() override;
  [[nodiscard]] Reply error_reply(const Error& error) const override;

 private:
  asio::awaitable<Reply> get_metrics();
  asio::awaitable<Reply> get_status();
  asio::awaitable<Reply> get_repository();

  std::function<ProcessFacts()> facts_;
  Metrics& metrics_;
  MetricsSources sources_;
  ModelService& models_;
};

/// The body of /status.
[[nodiscard]] std::string status_json(const ProcessFacts& facts, const cache::CacheStatus& status);
/// The body of /repository/models.
[[nodiscard]] std::string repository_json(const std::vector<ModelInfo>& models);

}  // namespace mme::server
