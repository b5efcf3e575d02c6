// DURATION in settings: "250ms", "30s", "5m". The unit is required.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "loader/error.hpp"

namespace mme::server {

/// Units us, ms, s, m, h; no space before the unit; at most 8760h, so that a deadline can always be computed. 0 is a
/// duration; whether it makes sense is the setting's business. Errors: invalid_request with the reason.
[[nodiscard]] loader::Result<std::chrono::microseconds> parse_duration(std::string_view text);

/// The shortest exact spelling that parse_duration reads back: "5m", "1500ms".
[[nodiscard]] std::string duration_text(std::chrono::microseconds duration);

}  // namespace mme::server
