// Errors become HTTP here and nowhere else.
#pragma once

#include <optional>
#include <string_view>

#include "loader/error.hpp"

namespace mme::server {

/// Status of a code; exhaustive, so that a new code does not compile without one.
[[nodiscard]] unsigned http_status(loader::ErrorCode code) noexcept;

/// Seconds for Retry-After, for the codes after which trying again helps.
[[nodiscard]] std::optional<unsigned> retry_after_seconds(loader::ErrorCode code) noexcept;

/// Standard reason phrase of a status, "Unknown" when there is none.
[[nodiscard]] std::string_view status_phrase(unsigned status) noexcept;

/// True for errors after which the connection cannot be used on (framing is lost or the body was not read).
[[nodiscard]] bool closes_connection(loader::ErrorCode code) noexcept;

}  // namespace mme::server
