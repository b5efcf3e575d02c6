// The running server: every part, in the order it starts. Wiring only; each part's decisions are its own.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "cache/model_cache.hpp"
#include "loader/repository/catalog.hpp"
#include "loader/torch/torch_loader.hpp"
#include "server/app/log.hpp"
#include "server/app/observers.hpp"
#include "server/config/memory_budget.hpp"
#include "server/config/settings.hpp"
#include "server/http/server.hpp"
#include "server/inference/inference_service.hpp"
#include "server/inference/worker_pool.hpp"
#include "server/metrics/metrics.hpp"

namespace mme::server {

/// What the machine gives, as it was found at start.
struct Resources {
  unsigned cores = 1;
  MemoryBudget memory;
};

/// One per process. run() is called once, on the main thread.
class Application {
 public:
  Application(Settings settings, Resources resources);
  ~Application();

  /// Serves until SIGTERM or SIGINT, then drains. The process's exit code.
  int run();

 private:
  [[nodiscard]] cache::CacheOptions cache_options();
  [[nodiscard]] InferenceOptions inference_options() const;
  [[nodiscard]] HttpOptions http_options() const;
  [[nodiscard]] bool admin_mounted() const;
  [[nodiscard]] bool on_loopback() const;
  Result<Router> make_router();
  Result<std::uint16_t> listen();
  void log_start(std::uint16_t port) const;
  asio::awaitable<void> tick_cache();
  asio::awaitable<void> preload();
  asio::awaitable<void> serve_until_signal();
  bool end_work();

  // Members start from top to bottom and end from bottom to top. In particular compute_ ends (and joins) before the
  // cache that its leases belong to, the cache before the pools it loads and destroys on, and the loader threads before
  // the reaper, which gets what they loaded in vain.
  const Settings settings_;
  const Resources resources_;
  Metrics metrics_;
  EventLog event_log_;
  StuckThreads stuck_threads_{compute_, loads_};
  ObserverGroup<3> observer_{metrics_, event_log_, stuck_threads_};
  loader::TorchLoader loader_;
  loader::Catalog catalog_;
  WorkerPool reaper_;
  WorkerPool loads_;
  cache::ModelCache cache_;
  asio::io_context io_;  // before compute_: a call that its client gave up still knows where it came from
  WorkerPool compute_;
  InferenceService service_;
  std::unique_ptr<Server> server_;
  std::atomic<bool> stopping_{false};
};

}  // namespace mme::server
