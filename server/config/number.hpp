// Plain decimal numbers in settings, environment variables and flags. No signs, no fractions, no other bases.
#pragma once

#include <cstdint>
#include <string_view>

#include "loader/error.hpp"

namespace mme::server {

/// Digits only. "010" is refused: YAML readers take it for 8. Errors (invalid_request) say what is wrong with the text.
[[nodiscard]] loader::Result<std::uint64_t> parse_number(std::string_view text);

/// A number and the unit behind it: "64MiB" is 64 and "MiB", "7" is 7 and "".
struct NumberWithUnit {
  std::uint64_t number = 0;
  std::string_view unit;
};
[[nodiscard]] loader::Result<NumberWithUnit> split_unit(std::string_view text);

}  // namespace mme::server
