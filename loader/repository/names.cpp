#include "loader/repository/names.hpp"

#include <algorithm>
#include <cstddef>

#include "loader/guards.hpp"

namespace mme::loader {
namespace {

constexpr std::size_t kLongestVersion = 18;  // every such number fits in 64 bits

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool all_digits(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// Not std::isalnum: that one follows the locale.
bool is_name_character(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
}

bool is_valid_part(std::string_view part) noexcept {
  return !part.empty() && part.front() != '.' && std::all_of(part.begin(), part.end(), is_name_character);
}

}  // namespace

bool is_valid_model_name(std::string_view name) noexcept {
  if (!guard("model_name")) return true;
  if (name.size() > kLongestModelName) return false;
  for (;;) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (!is_valid_part(part)) return false;
    if (slash == std::string_view::npos) return !all_digits(part);
    name.remove_prefix(slash + 1);
  }
}

bool is_valid_version(std::string_view version) noexcept {
  return version.size() <= kLongestVersion && all_digits(version);
}

}  // namespace mme::loader
