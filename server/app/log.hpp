// The log: one JSON object a line on standard error. Says what happened; decides nothing.
// Standard output stays free: models may print to it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "cache/observer.hpp"
#include "server/config/log_level.hpp"
#include "server/http/access.hpp"

namespace mme::server {

using LogValue = std::variant<std::string_view, std::int64_t, double, bool>;
using LogFields = std::initializer_list<std::pair<std::string_view, LogValue>>;

/// Sets up the sink; call once, before any line.
void open_log(LogLevel level);
void set_log_level(LogLevel level);

/// `{"time":"...","level":"info","event":"...",...}`. Strings are escaped, so no value can forge a line. Thread-safe.
void log(LogLevel level, std::string_view event, LogFields fields = {});
/// The line of one request, event `request`: level `access`, or `error` when it failed by a defect of ours.
void log_request(const AccessLine& line);

/// A line for each load, eviction, refusal and quarantine of the cache, and for sizes that are not what was expected.
class EventLog final : public cache::Observer {
 public:
  void load_started(const loader::ModelSpec& spec, std::size_t estimated_bytes) override;
  void load_ended(const loader::ModelSpec& spec, std::size_t bytes, std::chrono::nanoseconds took,
                  const loader::Error* error) override;
  void evicted(const loader::ModelSpec& spec, std::size_t bytes, cache::EvictionReason reason,
               std::string_view cause) override;
  void refused(const loader::ModelSpec& spec, const loader::Error& error) override;
  void quarantined(const loader::ModelSpec& spec, cache::StuckWork work) override;
  void recovered(const loader::ModelSpec& spec, cache::StuckWork work) override;
  void size_drifted(const loader::ModelSpec& spec, std::size_t learned, std::size_t measured) override;
  void model_grew(const loader::ModelSpec& spec, std::size_t before, std::size_t now) override;
};

}  // namespace mme::server
