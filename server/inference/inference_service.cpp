#include "server/inference/inference_service.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "server/http/await_callback.hpp"
#include "server/inference/declared_tensors.hpp"
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

void declare(ModelInfo& info, const ModelOptions& options) {
  if (!options.inputs.empty()) {
    auto known = info.signature ? loader::describe_inputs(*info.signature) : std::vector<loader::TensorInfo>();
    info.declared_inputs = with_declared(std::move(known), options.inputs);
  }
  if (!options.outputs.empty()) {
    auto known = info.signature ? info.signature->outputs : std::vector<loader::TensorInfo>();
    info.declared_outputs = with_declared(std::move(known), options.outputs);
  }
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

ModelRef InferenceService::real(ModelRef model) const {
  if (options_.real_name) model.name = options_.real_name(model.name);
  return model;
}

Result<ModelOptions> InferenceService::options_of(const std::string& name,
                                                  const std::optional<std::string>& url) const {
  return options_.options ? options_.options(name, url) : ModelOptions{};
}

InferenceService::Found InferenceService::with_options(loader::ModelSpec spec, ModelOptions options) {
  spec.settings.pinned = options.pinned.value_or(false);
  spec.settings.replace_offline = options.replace == Replace::offline;
  spec.settings.queue_size = options.queue_size;
  return {std::move(spec), std::move(options)};
}

Result<InferenceService::Found> InferenceService::resolve(const ModelRef& model,
                                                          const std::optional<std::string>& url) const {
  auto options = options_of(model.name, url);
  // Whether there is such a model at all is told first: settings of nothing are nobody's mistake.
  const auto version = model.version || !options ? model.version : options->default_version;
  auto spec = url ? catalog_.resolve_url(model.name, *url) : catalog_.resolve(model.name, version);
  if (!spec) return spec.error();
  if (!options) return options.error();
  return with_options(std::move(*spec), std::move(*options));
}

asio::awaitable<Result<InferenceResult>> InferenceService::infer(ModelRef model, loader::TensorMap inputs,
                                                                 Deadline deadline, AccessRecord& record) {
  model = real(std::move(model));
  auto found = resolve(model);
  if (!found) {
    auto old = not_replaced(model, found.error());
    if (!old) co_return found.error();
    found = std::move(*old);
  }
  const loader::ModelSpec& spec = found->spec;
  const ModelOptions& options = found->options;
  record.model = model.name;
  if (options.timeout) deadline = std::min(deadline, loader::Clock::now() + *options.timeout);
  if (auto bound = bind_declared(options.inputs, inputs); !bound) co_return bound.error();
  cache::CallRequest request{deadline, payload(inputs), 0, false};
  Call first{spec, inputs, request};
  CallOutcome outcome = co_await run_call(cache_, compute_, std::move(first));
  note(record, outcome);
  if (!outcome.outputs && !outcome.leased) {
    if (auto old = not_replaced(model, outcome.outputs.error()); old && old->spec.artifact != spec.artifact) {
      found->spec = std::move(old->spec);
      Call instead{spec, inputs, request};
      outcome = co_await run_call(cache_, compute_, std::move(instead));
      note(record, outcome);
    }
  }
  if (worth_another_try(outcome)) {
    request.alone = true;
    request.least_bytes = outcome.peak_bytes;
    Call second{spec, std::move(inputs), request};
    outcome = co_await run_call(cache_, compute_, std::move(second));
    note(record, outcome);
  }
  if (!outcome.outputs) co_return outcome.outputs.error();
  name_outputs(options.outputs, *outcome.outputs);
  learn_outputs(model.name, *outcome.outputs);
  co_return InferenceResult{
      std::move(*outcome.outputs), spec.version, {record.cache, record.queue_ms, record.load_ms, record.run_ms}};
}

std::optional<InferenceService::Found> InferenceService::not_replaced(const ModelRef& model, const Error& error) const {
  if (error.code != ErrorCode::model_broken && error.code != ErrorCode::settling) return std::nullopt;
  auto options = options_of(model.name, std::nullopt);
  if (!options) return std::nullopt;  // it is the settings that are broken
  std::optional<loader::ModelSpec> old;
  cache_.with_model(model.name, model.version ? model.version : options->default_version,
                    [&](const loader::Model&, const cache::EntryStatus& entry) { old = entry.spec; });
  if (!old) return std::nullopt;
  return with_options(std::move(*old), std::move(*options));
}

asio::awaitable<Result<ModelInfo>> InferenceService::load(ModelRef model, std::optional<std::string> url,
                                                          Deadline deadline) {
  model = real(std::move(model));
  auto found = resolve(model, url);
  if (!found) co_return found.error();
  auto start = [&cache = cache_, spec = found->spec, deadline](cache::ModelCache::DoneHandler on) {
    cache.load(spec, deadline, std::move(on));
  };
  const auto done = co_await await_callback<Result<void>>(std::move(start));
  // A load that joined another may be told of it first; the name must mean that artifact for both.
  const bool joined = !done && done.error().code == ErrorCode::already_loaded;
  const bool there = done && !options_.only_loaded ? true : (done || joined) && holds(found->spec);
  if (url && there) catalog_.register_alias(model.name, *url);
  if (!done) co_return done.error();
  // Evicted at once is no matter where calls load it again; unloaded is, where only a load brings it back.
  if (!there) co_return fail(ErrorCode::conflict, "the model was unloaded while it was loaded");
  co_return describe(model);
}

/// That very artifact is in memory under that name.
bool InferenceService::holds(const loader::ModelSpec& spec) const {
  return std::ranges::any_of(cache_.status().entries, [&](const cache::EntryStatus& entry) {
    return entry.state == cache::ModelState::ready && entry.spec.name == spec.name &&
           entry.spec.artifact == spec.artifact;
  });
}

asio::awaitable<Result<void>> InferenceService::unload(ModelRef model, Deadline deadline) {
  model = real(std::move(model));
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
    const auto done = co_await await_callback<Result<void>>(std::move(start));
    if (!done) co_return done.error();
  }
  catalog_.unregister_alias(model.name);
  co_return Result<void>{};
}

Result<ModelInfo> InferenceService::describe(const ModelRef& asked) {
  const ModelRef model = real(asked);
  const auto options = options_of(model.name, std::nullopt);
  auto found = resolve(model);
  if (!found) {
    if (auto old = not_replaced(model, found.error())) found = std::move(*old);
  }
  const bool unusable = !found && !options && found.error() == options.error();
  if (!found && !unusable) return found.error();
  // With settings that are no good there is still an artifact, and it may be in memory since before.
  const auto spec = found ? Result<loader::ModelSpec>(found->spec) : catalog_.resolve(model.name, model.version);
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
  if (options_.only_loaded && info.presence != Presence::ready) {
    return fail(ErrorCode::model_unknown, "the model is not loaded");
  }
  if (unusable) {
    info.presence = Presence::broken;
    info.reason = options.error().message;
  } else if (info.presence == Presence::stored) {
    if (const auto broken = cache_.broken(spec->artifact)) {
      info.presence = Presence::broken;
      info.reason = broken->message;
    }
  }
  info.url = catalog_.url_of(*spec);
  add_signature(info, spec->version);
  if (options) declare(info, *options);
  return info;
}

std::optional<loader::DataType> InferenceService::first_input_type(const ModelRef& asked) {
  const auto options = options_of(real(asked).name, std::nullopt);
  if (!options || options->inputs.empty()) return std::nullopt;
  return options->inputs.front().datatype;
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
  return list(!options_.only_loaded);
}

std::vector<ModelInfo> InferenceService::repository() {
  return list(true);
}

/// What is on disk, if asked for, and what is in memory under a name that the disk does not have.
std::vector<ModelInfo> InferenceService::list(bool with_disk) const {
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
  for (const auto& stored : with_disk ? catalog_.list() : std::vector<loader::StoredModel>()) {
    auto found = present.extract({stored.name, stored.version});
    ModelInfo info = found ? std::move(found.mapped()) : absent(stored);
    info.url = stored.url;
    if (const auto options = options_of(stored.name, std::nullopt); !options) {
      info.presence = Presence::broken;
      info.reason = options.error().message;
    }
    models.push_back(std::move(info));
  }
  const std::size_t on_disk = models.size();
  for (auto& [key, info] : present) {
    if (info.presence == Presence::loading || info.presence == Presence::ready) models.push_back(std::move(info));
  }
  if (models.size() > on_disk && on_disk > 0) std::ranges::stable_sort(models, {}, &ModelInfo::name);
  return models;
}

ModelInfo InferenceService::absent(const loader::StoredModel& stored) const {
  ModelInfo info;
  info.name = stored.name;
  info.version = stored.version;
  std::optional<Error> error = stored.error;
  if (!error) {
    if (const auto spec = catalog_.resolve(stored.name, stored.version)) error = cache_.broken(spec->artifact);
  }
  if (error) {
    info.presence = Presence::broken;
    info.reason = error->message;
  }
  return info;
}

bool InferenceService::ready() {
  if (!started_ || draining_) return false;
  const auto limit = 2 * std::chrono::duration<double>(options_.room_wait()).count();
  return cache_.oldest_waiting_load_seconds() < limit;
}

bool InferenceService::accepting() {
  return !draining_ && (started_ || !options_.accepting_when_started);
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
