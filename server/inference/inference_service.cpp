#include "server/inference/inference_service.hpp"

#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <memory>

#include "server/inference/pending_call.hpp"

namespace mme::server {
namespace {

/// Names whose outputs are remembered for metadata; the rest simply list none.
constexpr std::size_t kKnownOutputs = 10'000;

std::string_view to_string(cache::CacheResult result) noexcept {
  switch (result) {
    case cache::CacheResult::hit: return "hit";
    case cache::CacheResult::miss: return "miss";
    case cache::CacheResult::joined: return "joined";
  }
  return "";
}

using NameAndVersion = std::pair<std::string, std::optional<std::string>>;

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::size_t payload(const loader::TensorMap& tensors) {
  std::size_t bytes = 0;
  for (const auto& named : tensors) bytes += named.tensor.byte_size();
  return bytes;
}

/// Waits for one of the cache's done handlers on the awaiting coroutine's executor.
template <class Start>
asio::awaitable<Result<void>> await_done(Start start) {
  auto initiate = [start = std::move(start)](auto handler) mutable {
    auto executor = asio::get_associated_executor(handler);
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    start([shared, executor](Result<void> result) {
      asio::post(executor, [shared, result = std::move(result)]() mutable { std::move (*shared)(std::move(result)); });
    });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(Result<void>)>(std::move(initiate),
                                                                                              asio::use_awaitable);
}

Presence presence_of(cache::ModelState state) {
  switch (state) {
    case cache::ModelState::loading: return Presence::loading;
    case cache::ModelState::ready: return Presence::ready;
    case cache::ModelState::evicting: return Presence::draining;
  }
  return Presence::stored;
}

void note(AccessRecord& record, const CallOutcome& outcome) {
  record.run_ms += outcome.run_ms;
  if (!outcome.leased) return;
  record.cache = to_string(outcome.timing.result);
  record.queue_ms += milliseconds(outcome.timing.queue);
  record.load_ms += milliseconds(outcome.timing.load);
}

/// A call that was refused room in the middle runs once more, alone and with its need known (R10), unless it may have
/// left something behind in its model.
bool worth_another_try(const CallOutcome& outcome) {
  return outcome.outputs.has_error() && outcome.outputs.error().code == ErrorCode::activations && outcome.leased &&
         outcome.stateless;
}

}  // namespace

InferenceService::InferenceService(loader::Catalog& catalog, cache::ModelCache& cache, WorkerPool& compute,
                                   InferenceOptions options)
    : catalog_(catalog), cache_(cache), compute_(compute), options_(std::move(options)) {}

Result<loader::ModelSpec> InferenceService::resolve(const ModelRef& model) const {
  auto spec = catalog_.resolve(model.name, model.version);
  if (spec && options_.settings) spec->settings = options_.settings(model.name);
  return spec;
}

asio::awaitable<Result<InferenceResult>> InferenceService::infer(ModelRef model, loader::TensorMap inputs,
                                                                 Deadline deadline, AccessRecord& record) {
  auto spec = resolve(model);
  if (!spec) co_return spec.error();
  record.model = model.name;
  cache::CallRequest request{deadline, payload(inputs), 0, false};
  Call first{*spec, inputs, request};
  CallOutcome outcome = co_await run_call(cache_, compute_, std::move(first));
  note(record, outcome);
  if (worth_another_try(outcome)) {
    request.alone = true;
    request.least_bytes = outcome.peak_bytes;
    Call second{*spec, std::move(inputs), request};
    outcome = co_await run_call(cache_, compute_, std::move(second));
    note(record, outcome);
  }
  if (!outcome.outputs) co_return outcome.outputs.error();
  learn_outputs(model.name, *outcome.outputs);
  co_return InferenceResult{
      std::move(*outcome.outputs), spec->version, {record.cache, record.queue_ms, record.load_ms, record.run_ms}};
}

asio::awaitable<Result<ModelInfo>> InferenceService::load(ModelRef model, std::optional<std::string> url,
                                                          Deadline deadline) {
  auto spec = url ? catalog_.resolve_url(model.name, *url) : resolve(model);
  if (!spec) co_return spec.error();
  auto start = [&cache = cache_, spec = *spec, deadline](cache::ModelCache::DoneHandler on) {
    cache.load(spec, deadline, std::move(on));
  };
  const auto done = co_await await_done(std::move(start));
  if (!done) co_return done.error();
  if (url) catalog_.register_alias(model.name, *url);
  co_return describe(model);
}

asio::awaitable<Result<void>> InferenceService::unload(ModelRef model, Deadline deadline) {
  // Without a version: every version of that name.
  std::vector<std::optional<std::string>> versions;
  for (const auto& entry : cache_.status().entries) {
    if (entry.spec.name == model.name && entry.state != cache::ModelState::evicting &&
        (!model.version || entry.spec.version == model.version)) {
      versions.push_back(entry.spec.version);
    }
  }
  if (versions.empty()) co_return fail(ErrorCode::model_unknown, "the model is not in memory");
  for (const auto& version : versions) {
    auto start = [&cache = cache_, name = model.name, version, deadline](cache::ModelCache::DoneHandler on) {
      cache.unload(name, version, deadline, std::move(on));
    };
    const auto done = co_await await_done(std::move(start));
    if (!done) co_return done.error();
  }
  catalog_.unregister_alias(model.name);
  co_return Result<void>{};
}

Result<ModelInfo> InferenceService::describe(const ModelRef& model) {
  auto spec = resolve(model);
  if (!spec) return spec.error();
  ModelInfo info;
  info.name = model.name;
  info.version = spec->version;
  info.versions = catalog_.versions(model.name);
  for (const auto& entry : cache_.status().entries) {
    if (entry.spec.name != model.name || entry.spec.version != spec->version) continue;
    const ModelInfo present = info_of(entry);
    info.presence = present.presence;
    info.memory_bytes = present.memory_bytes;
    info.stateless = present.stateless;
    if (entry.state == cache::ModelState::ready) break;
  }
  if (info.presence == Presence::stored) {
    if (const auto broken = cache_.broken(spec->artifact)) {
      info.presence = Presence::broken;
      info.reason = broken->message;
    }
  }
  info.url = catalog_.url_of(*spec);
  add_signature(info, spec->version);
  return info;
}

void InferenceService::add_signature(ModelInfo& info, const std::optional<std::string>& version) const {
  cache_.with_model(info.name, version, [&info](const loader::Model& model, const cache::EntryStatus&) {
    info.signature = model.signature();
  });
  if (!info.signature || !info.signature->outputs.empty()) return;
  const std::shared_lock lock(outputs_mutex_);
  if (const auto found = known_outputs_.find(info.name); found != known_outputs_.end()) {
    info.signature->outputs = found->second;
  }
}

ModelInfo InferenceService::info_of(const cache::EntryStatus& entry) const {
  ModelInfo info;
  info.name = entry.spec.name;
  info.version = entry.spec.version;
  info.presence = presence_of(entry.state);
  info.memory_bytes = entry.weight_bytes + entry.code_bytes;
  info.stateless = entry.stateless;
  info.url = catalog_.url_of(entry.spec);
  return info;
}

std::vector<ModelInfo> InferenceService::in_memory() {
  std::vector<ModelInfo> models;
  for (const auto& entry : cache_.status().entries) {
    if (entry.state == cache::ModelState::ready) models.push_back(info_of(entry));
  }
  std::ranges::sort(models, {}, [](const ModelInfo& info) { return std::pair(info.name, info.version); });
  return models;
}

std::vector<ModelInfo> InferenceService::index() {
  std::map<NameAndVersion, ModelInfo> present;
  for (const auto& entry : cache_.status().entries) {
    // An entry that drains never hides the one that replaced it.
    auto info = info_of(entry);
    const bool draining = info.presence == Presence::draining;
    const auto key = NameAndVersion{info.name, info.version};
    if (draining) {
      present.try_emplace(key, std::move(info));
    } else {
      present.insert_or_assign(key, std::move(info));
    }
  }
  std::vector<ModelInfo> models;
  for (const auto& stored : catalog_.list()) {
    const auto found = present.find({stored.name, stored.version});
    ModelInfo info = found != present.end() ? found->second : absent(stored);
    info.url = stored.url;
    models.push_back(std::move(info));
  }
  return models;
}

ModelInfo InferenceService::absent(const loader::StoredModel& stored) const {
  ModelInfo info;
  info.name = stored.name;
  info.version = stored.version;
  std::optional<Error> error = stored.error;
  if (!error) {
    if (const auto spec = resolve({stored.name, stored.version})) error = cache_.broken(spec->artifact);
  }
  if (error) {
    info.presence = Presence::broken;
    info.reason = error->message;
  }
  return info;
}

bool InferenceService::ready() {
  if (!started_ || draining_) return false;
  const auto limit = 2 * std::chrono::duration<double>(options_.room_wait).count();
  return cache_.oldest_waiting_load_seconds() < limit;
}

bool InferenceService::accepting() {
  return !draining_;
}

void InferenceService::learn_outputs(const std::string& name, const loader::TensorMap& outputs) {
  {
    const std::shared_lock lock(outputs_mutex_);
    if (known_outputs_.contains(name) || known_outputs_.size() >= kKnownOutputs) return;
  }
  std::vector<loader::TensorInfo> infos;
  for (const auto& output : outputs) {
    loader::Shape any(output.tensor.shape().size(), -1);
    infos.push_back({output.name, output.tensor.type(), std::move(any)});
  }
  const std::lock_guard lock(outputs_mutex_);
  known_outputs_.emplace(name, std::move(infos));
}

}  // namespace mme::server
