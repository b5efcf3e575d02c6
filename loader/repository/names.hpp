// Which names of models and versions exist at all. Pure; the one place that decides it for URLs, headers and files.
#pragma once

#include <cstddef>
#include <string_view>

namespace mme::loader {

inline constexpr std::size_t kLongestModelName = 128;

/// Letters, digits, `.`, `_`, `-` in parts joined by `/`, at most 128 bytes in all. No part is empty or begins with a
/// dot, and the last part is not all digits (that would be a version).
[[nodiscard]] bool is_valid_model_name(std::string_view name) noexcept;

/// 1 to 18 digits.
[[nodiscard]] bool is_valid_version(std::string_view version) noexcept;

}  // namespace mme::loader
