// The running server: every part, in the order it starts. Wiring only; each part's decisions are its own.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cache/model_cache.hpp"
#include "loader/repository/catalog.hpp"
#include "loader/torch/torch_loader.hpp"
#include "server/app/learned_file.hpp"
#include "server/app/log.hpp"
#include "server/app/memory_keeper.hpp"
#include "server/app/observers.hpp"
#include "server/app/settings_control.hpp"
#include "server/config/settings.hpp"
#include "server/http/server.hpp"
#include "server/inference/inference_service.hpp"
#include "server/inference/model_files.hpp"
#include "server/inference/worker_pool.hpp"
#include "server/metrics/metrics.hpp"

namespace mme::server {

/// One per process. run() is called once, on the main thread.
class Application {
 public:
  /// `sources`: where `resolved` comes from, for reloads.
  Application(Sources sources, Resolved resolved, Resources resources);
  ~Application();

  /// Serves until SIGTERM or SIGINT, then drains. The process's exit code.
  int run();

 private:
  cache::CacheOptions cache_options(const MemoryBudget& memory);
  [[nodiscard]] InferenceOptions inference_options();
  /// The settings of one model: of the server's file and flags, then of the model's own file.
  [[nodiscard]] Result<ModelOptions> model_options(const Settings& settings, const std::string& name,
                                                   const std::optional<std::string>& url);
  [[nodiscard]] std::set<std::string> pinned_names(const Settings& settings);
  Result<void> prepare(const Settings& next, const MemoryBudget& memory);
  void apply(const Settings& before, const Settings& now);
  [[nodiscard]] bool admin_mounted() const;
  [[nodiscard]] bool on_loopback() const;
  Result<Router> make_router();
  Result<std::uint16_t> listen();
  void log_start(std::uint16_t port) const;
  asio::awaitable<void> tick_cache();
  asio::awaitable<void> preload();
  asio::awaitable<bool> load_all(std::vector<std::string> names);
  asio::awaitable<void> reload_on_hangup();
  asio::awaitable<void> serve_until_signal();
  bool end_work();

  // Members start from top to bottom and end from bottom to top. In particular compute_ ends (and joins) before the
  // cache that its leases belong to, the cache before the pools it loads and destroys on, and the loader threads before
  // the reaper, which gets what they loaded in vain.
  const Settings settings_;  ///< as at start; for what takes a restart
  const unsigned cores_;
  Metrics metrics_;
  EventLog event_log_;
  StuckThreads stuck_threads_{compute_, loads_};
  ObserverGroup<3> observer_{metrics_, event_log_, stuck_threads_};
  loader::TorchLoader loader_;
  loader::Catalog catalog_;
  ModelFiles model_files_{catalog_};
  LearnedFile learned_file_;  // before cache_, which is handed what stands in it
  TrimPolicy trims_;          // before reaper_, which asks it
  WorkerPool reaper_;
  WorkerPool loads_;
  cache::ModelCache cache_;
  LearnedKeeper learned_{cache_, learned_file_};
  asio::io_context io_;  // before compute_: a call that its client gave up still knows where it came from
  MemoryKeeper keeper_;
  WorkerPool codecs_;  // after io_: what it reads and writes belongs to handlers there
  // Made before anything is told to the world, so that no signal finds its default, which is to end the process.
  asio::signal_set ends_{io_, SIGTERM, SIGINT};
  asio::signal_set hangups_{io_, SIGHUP};
  SettingsControl control_;
  WorkerPool compute_;
  InferenceService service_;
  std::unique_ptr<Server> server_;
  std::atomic<bool> stopping_{false};
};

}  // namespace mme::server
