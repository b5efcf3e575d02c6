// How much the log says. Plain values; the log itself is server/app's.
#pragma once

#include <optional>
#include <string_view>

namespace mme::server {

/// Each one says what those before it say, and more.
enum class LogLevel { error, warning, info, access };

[[nodiscard]] constexpr std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::error: return "error";
    case LogLevel::warning: return "warning";
    case LogLevel::info: return "info";
    case LogLevel::access: return "access";
  }
  return "";
}

/// "error", "warning", "info", "access" (everything); nullopt for anything else.
[[nodiscard]] constexpr std::optional<LogLevel> parse_log_level(std::string_view name) noexcept {
  for (const LogLevel level : {LogLevel::error, LogLevel::warning, LogLevel::info, LogLevel::access}) {
    if (to_string(level) == name) return level;
  }
  return std::nullopt;
}

}  // namespace mme::server
