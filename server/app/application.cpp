#include "server/app/application.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "loader/torch/torch_runtime.hpp"
#include "server/dialects/oip_v2.hpp"
#include "server/dialects/sagemaker.hpp"
#include "server/metrics/operations.hpp"

namespace mme::server {
namespace {

using namespace std::chrono_literals;

constexpr auto kTick = 20ms;
/// For work that nobody waits for any more, at the end: what is not stuck ends in much less.
constexpr auto kEndPatience = 500ms;

std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::self_managed: return "self_managed";
    case Mode::platform: return "platform";
    case Mode::single: return "single";
  }
  return "";
}

void access_line(Metrics& metrics, const AccessLine& line) {
  metrics.request({line.record, line.status, line.seconds});
  log_request(line);
}

}  // namespace

Application::Application(Settings settings, Resources resources)
    : settings_(std::move(settings)),
      resources_(std::move(resources)),
      metrics_(MME_VERSION, settings_.metrics.per_model),
      catalog_(settings_.repository.path),
      reaper_({.name = "mme-reaper", .threads = 1, .nice = 5, .enter_thread = {}}),
      loads_({.name = "mme-load",
              .threads = settings_.threads.loader,
              .nice = 5,
              .enter_thread = &loader::enter_torch_thread}),
      cache_(cache_options(), loader_, loads_.executor(), reaper_.executor(), observer_),
      compute_({.name = "mme-compute",
                .threads = settings_.compute_threads(resources_.cores),
                .enter_thread = &loader::enter_torch_thread}),
      service_(catalog_, cache_, compute_, inference_options()) {}

Application::~Application() = default;

cache::CacheOptions Application::cache_options() {
  cache::CacheOptions options;
  options.budget = resources_.memory.budget;
  options.activation_floor = resources_.memory.activation_floor;
  options.compute_slots = settings_.compute_threads(resources_.cores);
  options.loads_at_once = settings_.threads.loader;
  options.queue_size = settings_.queue.size;
  options.room_wait = settings_.cache.room_wait;
  options.claim_after = settings_.cache.claim_after;
  options.load_timeout = settings_.cache.load_timeout;
  options.idle_unload = settings_.cache.idle_unload;
  options.evicts = settings_.mode != Mode::platform;
  // What the allocator keeps of a dead model is not free yet for anybody else.
  options.after_destroy = [] { malloc_trim(0); };
  return options;
}

InferenceOptions Application::inference_options() const {
  InferenceOptions options;
  options.room_wait = settings_.cache.room_wait;
  options.settings = [this](const std::string& model) {
    const ModelOptions given = settings_.options_of(model);
    loader::ModelSettings result;
    result.pinned = given.pinned;
    result.replace_offline = given.replace == Replace::offline;
    return result;
  };
  return options;
}

HttpOptions Application::http_options() const {
  HttpOptions options;
  options.limits.body = settings_.limits.body;
  options.limits.response = settings_.limits.response;
  options.limits.headers = settings_.limits.headers;
  options.limits.connections = settings_.limits.connections;
  options.timeouts.header = settings_.timeouts.header;
  options.timeouts.body_idle = settings_.timeouts.body_idle;
  options.timeouts.write_idle = settings_.timeouts.write_idle;
  options.timeouts.request = settings_.timeouts.request;
  options.timeouts.keep_alive = settings_.timeouts.keep_alive;
  options.timeouts.drain = settings_.timeouts.drain;
  return options;
}

bool Application::on_loopback() const {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(settings_.listener.host, error);
  return settings_.listener.host == "localhost" || (!error && address.is_loopback());
}

/// Admin calls need loopback, a token, or the platform's own network.
bool Application::admin_mounted() const {
  return on_loopback() || !settings_.admin.token.empty() || settings_.mode == Mode::platform;
}

Result<Router> Application::make_router() {
  const MetricsSources sources{[this] { return cache_.status(); }, resources_.memory.reserve};
  const ProcessFacts facts{MME_VERSION, std::string(to_string(settings_.mode)), resources_.memory.origin,
                           resources_.memory.reserve};
  RouterOptions options;
  options.admin_mounted = admin_mounted();
  if (!settings_.admin.token.empty()) options.admin_token = settings_.admin.token;
  return Router::make({std::make_shared<SageMaker>(service_),
                       std::make_shared<OipV2>(service_, OipOptions{MME_VERSION, options.admin_mounted}),
                       std::make_shared<Operations>(facts, metrics_, sources, service_)},
                      options);
}

Result<std::uint16_t> Application::listen() {
  auto router = make_router();
  if (!router) return router.error();
  server_ = std::make_unique<Server>(
      io_, http_options(), std::move(*router), [this](const AccessLine& line) { access_line(metrics_, line); },
      [this](std::size_t bytes) { return cache_.claim_body(bytes); });
  return server_->start(settings_.listener.host, settings_.listener.port);
}

void Application::log_start(std::uint16_t port) const {
  const std::string blas = loader::blas_name();
  const std::string torch = loader::torch_version();
  log(LogLevel::info, "listening",
      {{"version", std::string_view(MME_VERSION)},
       {"mode", to_string(settings_.mode)},
       {"host", std::string_view(settings_.listener.host)},
       {"port", std::int64_t{port}},
       {"budget_bytes", static_cast<std::int64_t>(resources_.memory.budget)},
       {"budget_origin", std::string_view(resources_.memory.origin)},
       {"reserve_bytes", static_cast<std::int64_t>(resources_.memory.reserve)},
       {"cores", std::int64_t{resources_.cores}},
       {"threads_io", std::int64_t{settings_.threads.io}},
       {"threads_compute", static_cast<std::int64_t>(compute_.threads())},
       {"threads_loader", std::int64_t{settings_.threads.loader}},
       {"threads_intra_op", std::int64_t{settings_.threads.intra_op}},
       {"libtorch", std::string_view(torch)},
       {"blas", std::string_view(blas)},
       {"admin", admin_mounted()}});
  if (resources_.memory.warning) {
    log(LogLevel::warning, "budget", {{"message", std::string_view(*resources_.memory.warning)}});
  }
  if (loader::is_reference_blas()) {
    log(LogLevel::warning, "reference_blas",
        {{"message",
          "libtorch runs on the reference BLAS, which is many times slower than OpenBLAS: "
          "install libopenblas0-pthread"}});
  }
  if (!admin_mounted()) {
    log(LogLevel::warning, "admin_not_mounted",
        {{"message",
          "admin calls answer 404 on a listener that is not loopback: set admin.token_file or "
          "MME_ADMIN_TOKEN to have them"}});
  }
}

asio::awaitable<void> Application::tick_cache() {
  asio::steady_timer timer(io_);
  while (!stopping_) {
    timer.expires_after(kTick);
    co_await timer.async_wait(asio::use_awaitable);
    cache_.tick();
  }
}

/// Pinned models and those named by cache.preload are in memory before the server says that it is ready.
asio::awaitable<void> Application::preload() {
  auto names = settings_.cache.preload;
  names.insert(names.end(), settings_.cache.pinned.begin(), settings_.cache.pinned.end());
  for (const auto& [name, options] : settings_.models) {
    if (options.pinned) names.push_back(name);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const auto& name : names) {
    const auto deadline = loader::Clock::now() + settings_.cache.load_timeout;
    ModelRef model{name, std::nullopt};
    const auto loaded = co_await service_.load(std::move(model), std::nullopt, deadline);
    if (!loaded && loaded.error().code != ErrorCode::already_loaded) {
      log(LogLevel::error, "preload_failed",
          {{"model", std::string_view(name)}, {"message", std::string_view(loaded.error().message)}});
      co_return;  // stays not ready: an operator who asked for this model must notice
    }
  }
  service_.set_started();
}

asio::awaitable<void> Application::serve_until_signal() {
  asio::signal_set signals(io_, SIGTERM, SIGINT);
  co_await signals.async_wait(asio::use_awaitable);
  log(LogLevel::info, "draining");
  service_.set_draining();
  // A second signal means now.
  signals.async_wait([](boost::system::error_code error, int) {
    if (!error) std::_Exit(130);
  });
  if (settings_.timeouts.drain_delay > 0ms) {
    asio::steady_timer delay(io_, settings_.timeouts.drain_delay);
    co_await delay.async_wait(asio::use_awaitable);
  }
  co_await server_->drain(settings_.timeouts.drain);
  cache_.stop();
  stopping_ = true;
  io_.stop();
}

int Application::run() {
  const auto port = listen();
  if (!port) {
    log(LogLevel::error, "cannot_listen", {{"message", std::string_view(port.error().message)}});
    return 1;
  }
  log_start(*port);
  asio::co_spawn(io_, tick_cache(), asio::detached);
  asio::co_spawn(io_, preload(), asio::detached);
  asio::co_spawn(io_, serve_until_signal(), asio::detached);
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < settings_.threads.io; ++i) threads.emplace_back([this] { io_.run(); });
  io_.run();
  for (auto& thread : threads) thread.join();
  if (!end_work()) {
    // A call or load that never ends holds its thread; nothing more can be lost by leaving now.
    log(LogLevel::warning, "stopped", {{"message", "left while calls or loads were still running"}});
    std::_Exit(0);
  }
  log(LogLevel::info, "stopped");
  return 0;
}

/// After the last answer: ends the threads that models run and load on. False: some are stuck, and joining them would
/// take for ever.
bool Application::end_work() {
  cache_.close();  // tells the loader to stop
  const auto until = loader::Clock::now() + kEndPatience;
  const auto left = [&] {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(until - loader::Clock::now());
    return std::max(rest, 0ms);
  };
  const bool computed = compute_.finish(left());
  return loads_.finish(left()) && computed;
}

}  // namespace mme::server
