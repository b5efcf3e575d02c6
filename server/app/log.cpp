#include "server/app/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <ctime>

#include "server/codecs/json_writer.hpp"

namespace mme::server {
namespace {

std::atomic<LogLevel> g_level{LogLevel::info};

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("mme", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    return made;
  }();
  return *instance;
}

/// UTC with milliseconds: 2026-01-31T12:00:00.000Z
std::string now_text() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char text[40];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%03dZ", static_cast<int>(now.tv_nsec / 1'000'000));
  return text;
}

void append_value(std::string& out, const LogValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    append_string(out, *text);
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    append_number(out, *integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    append_number(out, *real);
  } else {
    out += std::get<bool>(value) ? "true" : "false";
  }
}

/// What every line begins with.
std::string begin_line(LogLevel level, std::string_view event) {
  std::string line = "{";
  append_key(line, "time");
  append_string(line, now_text());
  append_key(line, "level");
  append_string(line, to_string(level));
  append_key(line, "event");
  append_string(line, event);
  return line;
}

void end_line(std::string line) {
  line += '}';
  logger().log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

std::int64_t signed_bytes(std::size_t bytes) {
  return static_cast<std::int64_t>(bytes);
}
std::string_view version_of(const loader::ModelSpec& spec) {
  return spec.version ? std::string_view(*spec.version) : std::string_view();
}

}  // namespace

void open_log(LogLevel level) {
  logger();
  set_log_level(level);
}

void set_log_level(LogLevel level) {
  g_level = level;
}

void log(LogLevel level, std::string_view event, LogFields fields) {
  if (level > g_level.load(std::memory_order_relaxed)) return;
  std::string line = begin_line(level, event);
  for (const auto& [key, value] : fields) {
    append_key(line, key);
    append_value(line, value);
  }
  end_line(std::move(line));
}

void log_request(const AccessLine& request) {
  const bool ours =
      !request.record.fault.empty() || request.record.reason == loader::reason(loader::ErrorCode::internal);
  const LogLevel level = ours ? LogLevel::error : LogLevel::access;
  if (level > g_level.load(std::memory_order_relaxed)) return;
  std::string line = begin_line(level, "request");
  append_access(line, request);
  end_line(std::move(line));
}

void EventLog::load_started(const loader::ModelSpec& spec, std::size_t estimated_bytes) {
  log(LogLevel::info, "load_started",
      {{"model", spec.name}, {"version", version_of(spec)}, {"estimated_bytes", signed_bytes(estimated_bytes)}});
}

void EventLog::load_ended(const loader::ModelSpec& spec, std::size_t bytes, std::chrono::nanoseconds took,
                          const loader::Error* error) {
  const double milliseconds = std::chrono::duration<double, std::milli>(took).count();
  if (error == nullptr) {
    log(LogLevel::info, "loaded",
        {{"model", spec.name}, {"version", version_of(spec)}, {"bytes", signed_bytes(bytes)}, {"ms", milliseconds}});
  } else {
    log(LogLevel::warning, "load_failed",
        {{"model", spec.name},
         {"version", version_of(spec)},
         {"ms", milliseconds},
         {"reason", loader::reason(error->code)},
         {"message", std::string_view(error->message)}});
  }
}

void EventLog::evicted(const loader::ModelSpec& spec, std::size_t bytes, cache::EvictionReason reason,
                       std::string_view cause) {
  log(LogLevel::info, "evicted",
      {{"model", spec.name},
       {"version", version_of(spec)},
       {"bytes", signed_bytes(bytes)},
       {"reason", to_string(reason)},
       {"for", cause}});
}

void EventLog::refused(const loader::ModelSpec& spec, const loader::Error& error) {
  log(LogLevel::warning, "refused",
      {{"model", spec.name},
       {"version", version_of(spec)},
       {"reason", loader::reason(error.code)},
       {"message", std::string_view(error.message)}});
}

void EventLog::quarantined(const loader::ModelSpec& spec, cache::StuckWork work) {
  log(LogLevel::error, "quarantined", {{"model", spec.name}, {"version", version_of(spec)}, {"work", to_string(work)}});
}

void EventLog::recovered(const loader::ModelSpec& spec, cache::StuckWork work) {
  log(LogLevel::info, "recovered", {{"model", spec.name}, {"version", version_of(spec)}, {"work", to_string(work)}});
}

void EventLog::size_drifted(const loader::ModelSpec& spec, std::size_t learned, std::size_t measured) {
  log(LogLevel::warning, "size_drift",
      {{"model", spec.name},
       {"version", version_of(spec)},
       {"learned_bytes", signed_bytes(learned)},
       {"measured_bytes", signed_bytes(measured)},
       {"message", "the same file took another size when it was loaded before"}});
}

void EventLog::model_grew(const loader::ModelSpec& spec, std::size_t before, std::size_t now) {
  log(LogLevel::warning, "model_grew",
      {{"model", spec.name},
       {"version", version_of(spec)},
       {"bytes_before", signed_bytes(before)},
       {"bytes", signed_bytes(now)},
       {"message", "this version takes far more memory than the one before it"}});
}

}  // namespace mme::server
