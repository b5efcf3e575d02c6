#include "server/app/application.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>

#include "loader/torch/torch_runtime.hpp"
#include "server/dialects/administration.hpp"
#include "server/dialects/oip_v2.hpp"
#include "server/dialects/sagemaker.hpp"
#include "server/metrics/operations.hpp"

namespace mme::server {
namespace {

using namespace std::chrono_literals;

constexpr auto kTick = 20ms;
constexpr int kTicksPerLook = 5;  // at the process's memory
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

cache::CacheLimits cache_limits(const Settings& settings, const MemoryBudget& memory) {
  cache::CacheLimits limits;
  limits.budget = memory.budget;
  limits.activation_floor = memory.activation_floor;
  limits.queue_size = settings.queue.size;
  limits.room_wait = settings.cache.room_wait;
  limits.claim_after = settings.cache.claim_after;
  limits.load_timeout = settings.cache.load_timeout;
  limits.idle_unload = settings.cache.idle_unload;
  return limits;
}

HttpOptions http_options(const Settings& settings) {
  HttpOptions options;
  options.limits.body = settings.limits.body;
  options.limits.response = settings.limits.response;
  options.limits.headers = settings.limits.headers;
  options.limits.connections = settings.limits.connections;
  options.timeouts.header = settings.timeouts.header;
  options.timeouts.body_idle = settings.timeouts.body_idle;
  options.timeouts.write_idle = settings.timeouts.write_idle;
  options.timeouts.request = settings.timeouts.request;
  options.timeouts.keep_alive = settings.timeouts.keep_alive;
  options.timeouts.drain = settings.timeouts.drain;
  return options;
}

/// Models that the settings want in memory from the start.
std::set<std::string> names_at_start(const Settings& settings) {
  std::set<std::string> names(settings.cache.preload.begin(), settings.cache.preload.end());
  names.insert(settings.cache.pinned.begin(), settings.cache.pinned.end());
  for (const auto& [name, options] : settings.models) {
    if (options.pinned.value_or(false)) names.insert(name);
  }
  return names;
}

loader::MapPolicy map_policy(MapFiles files) {
  switch (files) {
    case MapFiles::leased: return loader::MapPolicy::leased;
    case MapFiles::trusted: return loader::MapPolicy::trusted;
    case MapFiles::off: return loader::MapPolicy::off;
  }
  return loader::MapPolicy::off;
}

void access_line(Metrics& metrics, const AccessLine& line) {
  metrics.request({line.record, line.status, line.seconds});
  log_request(line);
}

}  // namespace

Application::Application(Sources sources, Resolved resolved, Resources resources)
    : settings_(resolved.settings),
      cores_(resources.machine.cores()),
      metrics_(MME_VERSION, settings_.metrics.per_model),
      loader_(loader::LoaderOptions{.prefault = settings_.cache.prefault, .map = map_policy(settings_.cache.map)}),
      catalog_(settings_.repository.path),
      learned_file_(settings_.state_folder()),
      reaper_({.name = "mme-reaper", .threads = 1, .nice = 5, .enter_thread = {}}),
      loads_({.name = "mme-load",
              .threads = settings_.threads.loader,
              .nice = 5,
              .enter_thread = &loader::enter_torch_thread}),
      cache_(cache_options(resources.memory), loader_, loads_.executor(), reaper_.executor(), observer_),
      keeper_(cache_, reaper_, resources.base_anon_bytes, &loader::WeightMap::bytes_in_files),
      codecs_({.name = "mme-codec", .threads = settings_.threads.io, .enter_thread = {}}),
      control_(std::move(sources), std::move(resolved), std::move(resources)),
      compute_({.name = "mme-compute",
                .threads = settings_.compute_threads(cores_),
                .enter_thread = &loader::enter_torch_thread}),
      service_(catalog_, cache_, compute_, inference_options()) {
  control_.on_change([this](const Settings& next, const MemoryBudget& memory) { return prepare(next, memory); },
                     [this](const Settings& before, const Settings& now) { apply(before, now); });
}

Application::~Application() = default;

cache::CacheOptions Application::cache_options(const MemoryBudget& memory) {
  const cache::CacheLimits limits = cache_limits(settings_, memory);
  cache::CacheOptions options;
  options.budget = limits.budget;
  options.activation_floor = limits.activation_floor;
  options.compute_slots = settings_.compute_threads(cores_);
  options.loads_at_once = settings_.threads.loader;
  options.queue_size = limits.queue_size;
  options.room_wait = limits.room_wait;
  options.claim_after = limits.claim_after;
  options.load_timeout = limits.load_timeout;
  options.idle_unload = limits.idle_unload;
  options.evicts = settings_.mode != Mode::platform;
  options.learned = learned_file_.read();
  // What the allocator keeps of a dead model is not free yet for anybody else.
  options.after_destroy = [this](std::size_t freed) {
    if (trims_.freed(freed, loader::Clock::now())) malloc_trim(0);
  };
  return options;
}

InferenceOptions Application::inference_options() {
  InferenceOptions options;
  options.room_wait = [this] { return control_.settings()->cache.room_wait; };
  options.options = [this](const std::string& model, const std::optional<std::string>& url) {
    return model_options(*control_.settings(), model, url);
  };
  options.real_name = [this](const std::string& name) { return control_.settings()->real_name(name); };
  options.only_loaded = settings_.mode == Mode::platform;
  options.accepting_when_started = settings_.mode == Mode::single;
  return options;
}

Result<ModelOptions> Application::model_options(const Settings& settings, const std::string& name,
                                                const std::optional<std::string>& url) {
  const auto own = model_files_.options(name, url);
  if (!own) return own.error();
  ModelOptions options = settings.options_of(name).or_else(*own);
  if (settings.mode == Mode::platform) options.pinned = false;  // nothing is evicted there anyway
  return options;
}

/// Of the models that have settings and of those in memory; others bring it along when they are called.
std::set<std::string> Application::pinned_names(const Settings& settings) {
  std::set<std::string> candidates(settings.cache.pinned.begin(), settings.cache.pinned.end());
  for (const auto& [name, options] : settings.models) candidates.insert(name);
  for (const auto& entry : cache_.status().entries) candidates.insert(entry.spec.name);
  std::set<std::string> pinned;
  for (const auto& name : candidates) {
    const auto options = model_options(settings, name, std::nullopt);
    if (options && options->pinned.value_or(false)) pinned.insert(name);
  }
  return pinned;
}

/// Settings that can be refused come first, so that a refusal leaves nothing half done.
Result<void> Application::prepare(const Settings& next, const MemoryBudget& memory) {
  return cache_.set_limits(cache_limits(next, memory), pinned_names(next));
}

void Application::apply(const Settings& before, const Settings& now) {
  set_log_level(now.log.level);
  if (server_) server_->set_options(http_options(now));
  std::vector<std::string> added;
  std::ranges::set_difference(names_at_start(now), names_at_start(before), std::back_inserter(added));
  if (!added.empty()) {
    asio::co_spawn(io_, load_all(std::move(added)), [](const std::exception_ptr&, bool) {});
  }
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
  const std::size_t reserve = control_.memory().reserve;
  const MetricsSources sources{[this] { return cache_.status(); }, reserve, [this] { return server_->counts(); },
                               keeper_.base(), &loader::WeightMap::bytes_in_files};
  const auto facts = [this, reserve] {
    return ProcessFacts{MME_VERSION, std::string(to_string(settings_.mode)), control_.memory().origin, reserve};
  };
  SageMakerOptions sagemaker;
  if (settings_.mode == Mode::single && !settings_.cache.preload.empty()) {
    sagemaker.default_model = settings_.cache.preload.front();
  }
  sagemaker.aside = codecs_.executor();
  RouterOptions options;
  options.admin_mounted = admin_mounted();
  if (!settings_.admin.token.empty()) options.admin_token = settings_.admin.token;
  return Router::make(
      {std::make_shared<SageMaker>(service_, sagemaker), std::make_shared<Administration>(control_),
       std::make_shared<OipV2>(service_, OipOptions{MME_VERSION, options.admin_mounted, codecs_.executor()}),
       std::make_shared<Operations>(facts, metrics_, sources, service_)},
      options);
}

Result<std::uint16_t> Application::listen() {
  auto router = make_router();
  if (!router) return router.error();
  server_ = std::make_unique<Server>(
      io_, http_options(settings_), std::move(*router), [this](const AccessLine& line) { access_line(metrics_, line); },
      [this](std::size_t bytes) { return cache_.claim_body(bytes); });
  return server_->start(settings_.listener.host, settings_.listener.port);
}

void Application::log_start(std::uint16_t port) const {
  const std::string blas = loader::blas_name();
  const std::string torch = loader::torch_version();
  const MemoryBudget memory = control_.memory();
  log(LogLevel::info, "listening",
      {{"version", std::string_view(MME_VERSION)},
       {"mode", to_string(settings_.mode)},
       {"host", std::string_view(settings_.listener.host)},
       {"port", std::int64_t{port}},
       {"budget_bytes", static_cast<std::int64_t>(memory.budget)},
       {"budget_origin", std::string_view(memory.origin)},
       {"reserve_bytes", static_cast<std::int64_t>(memory.reserve)},
       {"cores", std::int64_t{cores_}},
       {"threads_io", std::int64_t{settings_.threads.io}},
       {"threads_compute", static_cast<std::int64_t>(compute_.threads())},
       {"threads_loader", std::int64_t{settings_.threads.loader}},
       {"threads_intra_op", std::int64_t{settings_.threads.intra_op}},
       {"libtorch", std::string_view(torch)},
       {"blas", std::string_view(blas)},
       {"admin", admin_mounted()}});
  if (memory.warning) {
    log(LogLevel::warning, "budget", {{"message", std::string_view(*memory.warning)}});
  }
  if (loader::is_reference_blas()) {
    log(LogLevel::warning, "reference_blas",
        {{"message",
          "libtorch runs on the reference BLAS, which is many times slower than OpenBLAS: "
          "install libopenblas0-pthread"}});
  }
  std::error_code error;
  if (!std::filesystem::is_directory(settings_.repository.path, error)) {
    log(LogLevel::warning, "no_models_folder",
        {{"path", std::string_view(settings_.repository.path)},
         {"message", "the models folder does not exist; models are served as soon as it does"}});
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
  for (int tick = 1; !stopping_; ++tick) {
    timer.expires_after(kTick);
    co_await timer.async_wait(asio::use_awaitable);
    cache_.tick();
    if (tick % kTicksPerLook != 0) continue;
    learned_.step(loader::Clock::now());
    const MemoryBudget memory = control_.memory();
    keeper_.step(memory.budget, memory.reserve, memory.limit);
    if (trims_.overdue(loader::Clock::now())) reaper_.post([] { malloc_trim(0); });
  }
}

/// Pinned models and those named by cache.preload are in memory before the server says that it is ready.
asio::awaitable<void> Application::preload() {
  auto names = names_at_start(settings_);
  // Models whose own file pins them. A walk of the disk, once, before the server is ready.
  for (const auto& stored : settings_.mode == Mode::platform ? std::vector<loader::StoredModel>() : catalog_.list()) {
    const auto options = model_options(settings_, stored.name, std::nullopt);
    if (options && options->pinned.value_or(false)) names.insert(stored.name);
  }
  std::vector<std::string> in_order(names.begin(), names.end());
  // A model that fails leaves the server not ready: an operator who asked for it must notice.
  if (co_await load_all(std::move(in_order))) service_.set_started();
}

/// One after another; false at the first that cannot be loaded.
asio::awaitable<bool> Application::load_all(std::vector<std::string> names) {
  for (const auto& name : names) {
    const auto deadline = loader::Clock::now() + control_.settings()->cache.load_timeout;
    ModelRef model{name, std::nullopt};
    const auto loaded = co_await service_.load(std::move(model), std::nullopt, deadline);
    if (loaded || loaded.error().code == ErrorCode::already_loaded) continue;
    log(LogLevel::error, "preload_failed",
        {{"model", std::string_view(name)}, {"message", std::string_view(loaded.error().message)}});
    co_return false;
  }
  co_return true;
}

/// SIGHUP asks for a reload; what comes of it is in the log.
asio::awaitable<void> Application::reload_on_hangup() {
  while (!stopping_) {
    co_await hangups_.async_wait(asio::use_awaitable);
    co_await control_.reload();
  }
}

asio::awaitable<void> Application::serve_until_signal() {
  co_await ends_.async_wait(asio::use_awaitable);
  log(LogLevel::info, "draining");
  service_.set_draining();
  // A second signal means now.
  ends_.async_wait([](boost::system::error_code error, int) {
    if (!error) std::_Exit(130);
  });
  const auto settings = control_.settings();
  if (settings->timeouts.drain_delay > 0ms) {
    asio::steady_timer delay(io_, settings->timeouts.drain_delay);
    co_await delay.async_wait(asio::use_awaitable);
  }
  co_await server_->drain(settings->timeouts.drain);
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
  asio::co_spawn(io_, reload_on_hangup(), asio::detached);
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
  const bool loaded = loads_.finish(left());
  return learned_.finish(kEndPatience) && loaded && computed;  // last: calls that ended just now taught something
}

}  // namespace mme::server
