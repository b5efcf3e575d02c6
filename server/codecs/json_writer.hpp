// Writes JSON by appending to a string: escaped strings and numbers that read back to the same bits.
// Has no tree and no state: brackets and commas are the caller's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mme::server {

/// A quoted string. Bytes that are no UTF-8 become U+FFFD, so that the result is always valid JSON; whoever must not
/// lose bytes asks is_utf8() first.
void append_string(std::string& out, std::string_view text);

void append_number(std::string& out, std::int64_t value);
void append_number(std::string& out, std::uint64_t value);
/// Finite values only. The shortest digits that read back to the same double (or float), laid out as Python's repr():
/// always with a point or an exponent, the exponent from 1e16 up and below 1e-4.
void append_number(std::string& out, double value);
void append_number(std::string& out, float value);

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// `"key":`, with a comma before it unless `out` ends in an opening bracket. `key` is ours and needs no escape.
void append_key(std::string& out, std::string_view key);

}  // namespace mme::server
