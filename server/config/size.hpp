// SIZE in settings: "67108864", "64MiB", "500MB". Bytes in, bytes out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "loader/error.hpp"

namespace mme::server {

/// A bare number is bytes; KB, MB, GB count in thousands, KiB, MiB, GiB in 1024s; no space before the unit. 0 and
/// everything above 2^63 - 1 are refused (invalid_request, with the reason).
[[nodiscard]] loader::Result<std::uint64_t> parse_size(std::string_view text);

/// The shortest exact spelling that parse_size reads back, in 1024s where that is exact: "64MiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

}  // namespace mme::server
