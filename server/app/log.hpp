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

namespace mme::server {

using LogValue = std::variant<std::string_view, std::int64_t, double, bool>;
using LogFields = std::initializer_list<std::pair<std::string_view, LogValue>>;

/// Sets up the sink; call once, before any line.
void open_log(LogLevel level);
void set_log_level(LogLevel level);

/// `{"time":"...","level":"info","event":"...",...}`. Strings are escaped, so no value can forge a line. Thread-safe.
void log(LogLevel level, std::string_view event, LogFields fields = {});
/// A line that is JSON already; level `access`.
void log_access(std::string_view json);

/// A line for each load, eviction and refusal of the cache.
class EventLog final : public cache::Observer {
 public:
  void load_started(const loader::ModelSpec& spec, std::size_t estimated_bytes) override;
  void load_ended(const loader::ModelSpec& spec, std::size_t bytes, std::chrono::nanoseconds took,
                  const loader::Error* error) override;
  void evicted(const loader::ModelSpec& spec, std::size_t bytes, cache::EvictionReason reason,
               std::string_view cause) override;
  void refused(const loader::ModelSpec& spec, const loader::Error& error) override;
};

/// Tells two observers.
class BothObservers final : public cache::Observer {
 public:
  BothObservers(cache::Observer& first, cache::Observer& second) : first_(first), second_(second) {}
  void found(const loader::ModelSpec& spec, cache::CacheResult result) override {
    first_.found(spec, result);
    second_.found(spec, result);
  }
  void load_started(const loader::ModelSpec& spec, std::size_t bytes) override {
    first_.load_started(spec, bytes);
    second_.load_started(spec, bytes);
  }
  void load_ended(const loader::ModelSpec& spec, std::size_t bytes, std::chrono::nanoseconds took,
                  const loader::Error* error) override {
    first_.load_ended(spec, bytes, took, error);
    second_.load_ended(spec, bytes, took, error);
  }
  void evicted(const loader::ModelSpec& spec, std::size_t bytes, cache::EvictionReason reason,
               std::string_view cause) override {
    first_.evicted(spec, bytes, reason, cause);
    second_.evicted(spec, bytes, reason, cause);
  }
  void refused(const loader::ModelSpec& spec, const loader::Error& error) override {
    first_.refused(spec, error);
    second_.refused(spec, error);
  }

 private:
  cache::Observer& first_;
  cache::Observer& second_;
};

}  // namespace mme::server
