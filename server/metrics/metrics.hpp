// What is counted, under the fixed metric names, and the Prometheus text of it.
// Counts what others report; measures nothing itself and knows no sockets.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "cache/model_cache.hpp"
#include "cache/observer.hpp"
#include "server/http/message.hpp"
#include "server/http/server.hpp"

namespace mme::server {

/// One finished request, as the counters want it.
struct RequestSample {
  const AccessRecord& record;
  unsigned status = 0;
  double seconds = 0;
};

/// Gauges that are read when somebody scrapes.
struct MetricsSources {
  std::function<cache::CacheStatus()> cache;
  std::size_t reserve_bytes = 0;
  std::function<ServerCounts()> server = {};
  std::size_t base_anon_bytes = 0;  ///< of the process before there was any model
  /// What is charged and is pages of model files, no anonymous memory.
  std::function<std::size_t()> mapped_bytes = {};
};

/// Thread-safe. Series per model are made for the first `per_model` names that exist; the others, and names that do
/// not exist, share model="".
class Metrics final : public cache::Observer {
 public:
  Metrics(std::string version, std::size_t per_model);
  ~Metrics() override;

  void request(const RequestSample& sample);

  void found(const loader::ModelSpec& spec, cache::CacheResult result) override;
  void load_ended(const loader::ModelSpec& spec, std::size_t bytes, std::chrono::nanoseconds took,
                  const loader::Error* error) override;
  void evicted(const loader::ModelSpec& spec, std::size_t bytes, cache::EvictionReason reason,
               std::string_view cause) override;
  void refused(const loader::ModelSpec& spec, const loader::Error& error) override;
  void quarantined(const loader::ModelSpec& spec, cache::StuckWork work) override;
  void size_drifted(const loader::ModelSpec& spec, std::size_t learned, std::size_t measured) override;
  void model_grew(const loader::ModelSpec& spec, std::size_t before, std::size_t now) override;

  /// Prometheus text format, version 0.0.4.
  [[nodiscard]] std::string text(const MetricsSources& sources);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mme::server
