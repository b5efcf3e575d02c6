#include "server/metrics/operations.hpp"

#include <cstdint>

#include "server/codecs/json_writer.hpp"
#include "server/http/status.hpp"
#include "server/metrics/process_memory.hpp"

namespace mme::server {
namespace {

void add(std::string& out, std::string_view key, std::string_view text) {
  append_key(out, key);
  append_string(out, text);
}
void add(std::string& out, std::string_view key, std::size_t value) {
  append_key(out, key);
  append_number(out, static_cast<std::uint64_t>(value));
}
void add(std::string& out, std::string_view key, double value) {
  append_key(out, key);
  append_number(out, value);
}
void add_flag(std::string& out, std::string_view key, bool value) {
  append_key(out, key);
  out += value ? "true" : "false";
}
void add(std::string& out, std::string_view key, const std::optional<std::string>& text) {
  if (text) add(out, key, std::string_view(*text));
}

std::string_view to_string(cache::ModelState state) {
  switch (state) {
    case cache::ModelState::loading: return "loading";
    case cache::ModelState::ready: return "ready";
    case cache::ModelState::evicting: return "evicting";
  }
  return "";
}

std::string_view to_string(Presence presence) {
  switch (presence) {
    case Presence::stored: return "not in memory";
    case Presence::loading: return "loading";
    case Presence::ready: return "ready";
    case Presence::draining: return "draining";
    case Presence::broken: return "broken";
  }
  return "";
}

void add_entry(std::string& out, const cache::EntryStatus& entry) {
  out += '{';
  add(out, "name", std::string_view(entry.spec.name));
  add(out, "version", entry.spec.version);
  add(out, "state", to_string(entry.state));
  if (!entry.stage.empty()) add(out, "stage", std::string_view(entry.stage));
  add(out, "weight_bytes", entry.weight_bytes);
  add(out, "code_bytes", entry.code_bytes);
  add(out, "unique_bytes", entry.weight_bytes + entry.code_bytes - entry.shared_bytes);
  add(out, "shared_bytes", entry.shared_bytes);
  add(out, "saved_bytes", entry.saved_bytes);
  add(out, "mapped_bytes", entry.mapped_bytes);
  if (entry.way) add(out, "loaded", to_string(*entry.way));
  if (!entry.way_reason.empty()) add(out, "loaded_reason", std::string_view(entry.way_reason));
  add(out, "running", entry.leases);
  add(out, "waiting", entry.waiting);
  add_flag(out, "stateful", !entry.stateless);
  add_flag(out, "pinned", entry.pinned);
  add_flag(out, "quarantined", entry.quarantined);
  add(out, "idle_seconds", entry.idle_seconds);
  append_key(out, "goes_next_rank");
  if (entry.eviction_rank) {
    append_number(out, static_cast<std::uint64_t>(*entry.eviction_rank));
  } else {
    out += "null";
  }
  out += '}';
}

void add_memory(std::string& out, const cache::CacheStatus& status, std::size_t reserve) {
  const ProcessMemory process = process_memory();
  append_key(out, "memory");
  out += '{';
  add(out, "budget_bytes", status.budget);
  add(out, "used_bytes", status.used.total());
  add(out, "weights", status.used.weights);
  add(out, "code", status.used.code);
  add(out, "loading", status.used.loading);
  add(out, "draining", status.used.draining);
  add(out, "activations", status.used.activations);
  add(out, "bodies", status.used.bodies);
  add(out, "pinned_bytes", status.pinned_bytes);
  add(out, "shared_saved_bytes", status.shared_saved_bytes);
  add(out, "reserve_bytes", reserve);
  add(out, "process_rss_bytes", process.rss_bytes);
  add(out, "process_anon_bytes", process.anon_bytes);
  out += '}';
}

Reply json_reply(std::string body) {
  return {200, {{"Content-Type", "application/json"}}, std::move(body)};
}

}  // namespace

std::string status_json(const ProcessFacts& facts, const cache::CacheStatus& status) {
  std::string out = "{";
  add(out, "version", std::string_view(facts.version));
  add(out, "mode", std::string_view(facts.mode));
  add(out, "budget_origin", std::string_view(facts.budget_origin));
  add_memory(out, status, facts.reserve_bytes);
  add(out, "claims_waiting", status.claims_waiting);
  add(out, "stuck_calls", status.stuck_calls);
  add(out, "stuck_loads", status.stuck_loads);
  add(out, "oldest_waiting_load_seconds", status.oldest_waiting_load_seconds);
  append_key(out, "models");
  out += '[';
  for (const auto& entry : status.entries) {
    if (out.back() != '[') out += ',';
    add_entry(out, entry);
  }
  return out + "]}";
}

std::string repository_json(const std::vector<ModelInfo>& models) {
  std::string out = "{\"models\":[";
  for (const auto& model : models) {
    if (out.back() != '[') out += ',';
    out += '{';
    add(out, "name", std::string_view(model.name));
    add(out, "version", model.version);
    add(out, "url", std::string_view(model.url));
    add(out, "state", to_string(model.presence));
    if (!model.reason.empty()) add(out, "reason", std::string_view(model.reason));
    add(out, "memory_bytes", model.memory_bytes);
    out += '}';
  }
  return out + "]}";
}

Operations::Operations(std::function<ProcessFacts()> facts, Metrics& metrics, MetricsSources sources,
                       ModelService& models)
    : facts_(std::move(facts)), metrics_(metrics), sources_(std::move(sources)), models_(models) {}

std::vector<Route> Operations::routes() {
  return {
      {Method::get, "/metrics", Access::open, [this](Exchange&) { return get_metrics(); }},
      {Method::get, "/status", Access::admin, [this](Exchange&) { return get_status(); }},
      {Method::get, "/repository/models", Access::admin, [this](Exchange&) { return get_repository(); }},
  };
}

Reply Operations::error_reply(const Error& error) const {
  std::string body = "{";
  add(body, "error", std::string_view(error.message));
  return {http_status(error.code), {{"Content-Type", "application/json"}}, body + "}"};
}

asio::awaitable<Reply> Operations::get_metrics() {
  co_return Reply{200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}}, metrics_.text(sources_)};
}

asio::awaitable<Reply> Operations::get_status() {
  co_return json_reply(status_json(facts_(), sources_.cache()));
}

asio::awaitable<Reply> Operations::get_repository() {
  co_return json_reply(repository_json(models_.repository()));
}

}  // namespace mme::server
