#include "server/metrics/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "server/metrics/process_memory.hpp"

namespace mme::server {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

// From 100 us to a minute: a cached tiny call up to a request that just made its time-out.
const Histogram::BucketBoundaries kSeconds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                           0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};

Family<Counter>& counter(prometheus::Registry& registry, const char* name, const char* help) {
  return BuildCounter().Name(name).Help(help).Register(registry);
}

Family<Gauge>& gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(registry);
}

Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help) {
  return BuildHistogram().Name(name).Help(help).Register(registry).Add({}, kSeconds);
}

}  // namespace

struct Metrics::Impl {
  explicit Impl(std::size_t cap) : per_model(cap) {}

  /// The label of a model: its name for the first `per_model` names, "" after that. Call with the mutex held.
  const std::string& label(const std::string& model) {
    static const std::string kShared;
    if (model.empty()) return kShared;
    if (const auto known = names.find(model); known != names.end()) return *known;
    if (names.size() >= per_model) return kShared;
    return *names.insert(model).first;
  }

  /// For a count that somebody else keeps.
  void raise_to(Counter& counter, std::uint64_t value) {
    const std::lock_guard lock(mutex);
    const auto now = static_cast<double>(value);
    if (now > counter.Value()) counter.Increment(now - counter.Value());
  }

  /// prometheus-cpp looks a series up by its whole label map; a request should not pay for that each time.
  Counter& request_counter(const AccessRecord& record, unsigned status) {
    const std::lock_guard lock(mutex);
    std::string key = record.dialect + '\n' + label(record.model) + '\n' + std::to_string(status);
    if (const auto found = request_series.find(key); found != request_series.end()) return *found->second;
    Counter& series =
        requests.Add({{"dialect", record.dialect}, {"model", label(record.model)}, {"status", std::to_string(status)}});
    request_series.emplace(std::move(key), &series);
    return series;
  }

  Counter& model_counter(Family<Counter>& family, const std::string& model) {
    const std::lock_guard lock(mutex);
    return family.Add({{"model", label(model)}});
  }

  Counter& hit_counter(const std::string& model) {
    const std::lock_guard lock(mutex);
    const std::string& name = label(model);
    if (const auto found = hit_series.find(name); found != hit_series.end()) return *found->second;
    Counter& series = hits.Add({{"model", name}});
    hit_series.emplace(name, &series);
    return series;
  }

  Counter& quarantine_counter(cache::StuckWork work) {
    return quarantines.Add({{"work", std::string(to_string(work))}});
  }

  const std::size_t per_model;
  std::mutex mutex;
  std::unordered_set<std::string> names;
  std::unordered_map<std::string, Counter*> request_series;
  std::unordered_map<std::string, Counter*> hit_series;

  prometheus::Registry registry;
  Family<Counter>& requests = counter(registry, "mme_requests_total", "Requests answered.");
  Histogram& request_seconds = histogram(registry, "mme_request_seconds", "From the request's header to its reply.");
  Histogram& queue_seconds = histogram(registry, "mme_queue_seconds", "Waited for a slot and room, model in memory.");
  Histogram& load_seconds = BuildHistogram()
                                .Name("mme_model_load_seconds")
                                .Help("From the start of a load to its end.")
                                .Register(registry)
                                .Add({{"stage", "total"}}, kSeconds);
  Family<Counter>& loads = counter(registry, "mme_model_loads_total", "Models brought into memory.");
  Family<Counter>& load_failures = counter(registry, "mme_model_load_failures_total", "Loads that failed.");
  Family<Counter>& drifts =
      counter(registry, "mme_size_drift_total", "Loads far off the size that the same content had before.");
  Family<Counter>& growths =
      counter(registry, "mme_model_growth_total", "Versions far larger than the one before, by the name's model.");
  Family<Counter>& hits = counter(registry, "mme_cache_hits_total", "Calls that found their model in memory.");
  Counter& misses = counter(registry, "mme_cache_misses_total", "Calls that began a load.").Add({});
  Counter& joined =
      counter(registry, "mme_cache_joined_total", "Calls that found their model's load under way.").Add({});
  Family<Counter>& evictions = counter(registry, "mme_cache_evictions_total", "Models that left memory.");
  Family<Counter>& refusals = counter(registry, "mme_cache_refusals_total", "Calls and loads the cache refused.");
  Family<Counter>& quarantines = counter(registry, "mme_quarantined_total", "Calls and loads written off as stuck.");
  Family<Gauge>& stuck = gauge(registry, "mme_stuck", "Calls and loads written off that have not ended yet.");

  Family<Gauge>& memory = gauge(registry, "mme_memory_bytes", "Charged bytes by kind; their sum stays in the budget.");
  Gauge& budget = gauge(registry, "mme_memory_budget_bytes", "The budget.").Add({});
  Gauge& reserve = gauge(registry, "mme_memory_reserve_bytes", "Kept for what no meter sees.").Add({});
  Gauge& pinned = gauge(registry, "mme_memory_pinned_bytes", "Held by pinned models.").Add({});
  Gauge& saved = gauge(registry, "mme_memory_shared_saved_bytes", "Not held twice thanks to sharing.").Add({});
  Gauge& mapped =
      gauge(registry, "mme_memory_mapped_bytes", "Part of the charged bytes: pages of model files.").Add({});
  Gauge& uncounted =
      gauge(registry, "mme_memory_uncounted_bytes", "Anonymous memory beyond the process's base and the books.")
          .Add({});
  Gauge& rss = gauge(registry, "mme_process_rss_bytes", "Resident memory of the process.").Add({});
  Gauge& anon = gauge(registry, "mme_process_anon_bytes", "Anonymous part of it.").Add({});
  Family<Gauge>& models = gauge(registry, "mme_models", "Models by state.");
  Gauge& connections = gauge(registry, "mme_connections", "Connections that are open.").Add({});
  Counter& connections_refused =
      counter(registry, "mme_connections_refused_total", "Connections over the limit, answered 503 or dropped.")
          .Add({});
  Counter& accept_shortages =
      counter(registry, "mme_accept_shortages_total", "Times that accepting waited for descriptors.").Add({});
  Gauge& oldest_load = gauge(registry, "mme_oldest_waiting_load_seconds", "Age of the oldest load that waits.").Add({});
};

Metrics::Metrics(std::string version, std::size_t per_model) : impl_(std::make_unique<Impl>(per_model)) {
  gauge(impl_->registry, "mme_build_info", "Always 1.").Add({{"version", std::move(version)}}).Set(1);
}

Metrics::~Metrics() = default;

void Metrics::request(const RequestSample& sample) {
  impl_->request_counter(sample.record, sample.status).Increment();
  impl_->request_seconds.Observe(sample.seconds);
  if (!sample.record.cache.empty()) impl_->queue_seconds.Observe(sample.record.queue_ms / 1000);
}

void Metrics::found(const loader::ModelSpec& spec, cache::CacheResult result) {
  switch (result) {
    case cache::CacheResult::hit: return impl_->hit_counter(spec.name).Increment();
    case cache::CacheResult::miss: return impl_->misses.Increment();
    case cache::CacheResult::joined: return impl_->joined.Increment();
  }
}

void Metrics::load_ended(const loader::ModelSpec& spec, std::size_t /*bytes*/, std::chrono::nanoseconds took,
                         const loader::Error* error) {
  if (error != nullptr) return impl_->model_counter(impl_->load_failures, spec.name).Increment();
  impl_->model_counter(impl_->loads, spec.name).Increment();
  impl_->load_seconds.Observe(std::chrono::duration<double>(took).count());
}

void Metrics::evicted(const loader::ModelSpec& /*spec*/, std::size_t /*bytes*/, cache::EvictionReason reason,
                      std::string_view /*cause*/) {
  impl_->evictions.Add({{"reason", std::string(to_string(reason))}}).Increment();
}

void Metrics::refused(const loader::ModelSpec& /*spec*/, const loader::Error& error) {
  impl_->refusals.Add({{"reason", std::string(loader::reason(error.code))}}).Increment();
}

void Metrics::quarantined(const loader::ModelSpec& /*spec*/, cache::StuckWork work) {
  impl_->quarantine_counter(work).Increment();
}

void Metrics::size_drifted(const loader::ModelSpec& spec, std::size_t /*learned*/, std::size_t /*measured*/) {
  impl_->model_counter(impl_->drifts, spec.name).Increment();
}

void Metrics::model_grew(const loader::ModelSpec& spec, std::size_t /*before*/, std::size_t /*now*/) {
  impl_->model_counter(impl_->growths, spec.name).Increment();
}

std::string Metrics::text(const MetricsSources& sources) {
  const cache::CacheStatus status = sources.cache();
  const std::array<std::pair<const char*, std::size_t>, 6> kinds{{{"weights", status.used.weights},
                                                                  {"code", status.used.code},
                                                                  {"loading", status.used.loading},
                                                                  {"draining", status.used.draining},
                                                                  {"activations", status.used.activations},
                                                                  {"bodies", status.used.bodies}}};
  for (const auto& [kind, bytes] : kinds) impl_->memory.Add({{"kind", kind}}).Set(static_cast<double>(bytes));
  std::array<std::size_t, 3> states{};
  for (const auto& entry : status.entries) ++states.at(static_cast<std::size_t>(entry.state));
  const std::array<const char*, 3> names{"loading", "ready", "evicting"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    impl_->models.Add({{"state", names[i]}}).Set(static_cast<double>(states[i]));
  }
  for (const auto& [work, count] :
       {std::pair(cache::StuckWork::call, status.stuck_calls), std::pair(cache::StuckWork::load, status.stuck_loads)}) {
    (void)impl_->quarantine_counter(work);  // there from the start, so that a rate can be taken of the first
    impl_->stuck.Add({{"work", std::string(to_string(work))}}).Set(static_cast<double>(count));
  }
  const ProcessMemory process = process_memory();
  impl_->budget.Set(static_cast<double>(status.budget));
  impl_->reserve.Set(static_cast<double>(sources.reserve_bytes));
  impl_->pinned.Set(static_cast<double>(status.pinned_bytes));
  impl_->saved.Set(static_cast<double>(status.shared_saved_bytes));
  const std::size_t mapped = sources.mapped_bytes ? sources.mapped_bytes() : 0;
  impl_->mapped.Set(static_cast<double>(mapped));
  const std::size_t known = sources.base_anon_bytes + status.used.total() - std::min(mapped, status.used.total());
  impl_->uncounted.Set(static_cast<double>(process.anon_bytes > known ? process.anon_bytes - known : 0));
  impl_->rss.Set(static_cast<double>(process.rss_bytes));
  impl_->anon.Set(static_cast<double>(process.anon_bytes));
  if (sources.server) {
    const ServerCounts counts = sources.server();
    impl_->connections.Set(static_cast<double>(counts.connections));
    impl_->raise_to(impl_->connections_refused, counts.refused_connections);
    impl_->raise_to(impl_->accept_shortages, counts.accept_shortages);
  }
  impl_->oldest_load.Set(status.oldest_waiting_load_seconds);
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace mme::server
