// Content-Type and Accept as far as a server of few formats needs them.
// No MIME registry: types are compared as text, without case.
#pragma once

#include <string_view>

namespace mme::server {

/// The type without its parameters and spaces: "application/json; charset=utf-8" gives "application/json".
[[nodiscard]] std::string_view without_parameters(std::string_view content_type) noexcept;

/// Equal without case.
[[nodiscard]] bool same_type(std::string_view a, std::string_view b) noexcept;

/// How much the client wants `type`, 0 to 1000, by the most specific range of its Accept header that matches
/// (exact, then `application/*`, then `*/*`); 0 when none does or when it says q=0. An empty header accepts all.
[[nodiscard]] int accept_quality(std::string_view accept, std::string_view type) noexcept;

}  // namespace mme::server
