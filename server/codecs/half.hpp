// Sixteen-bit floats, IEEE binary16 (FP16) and bfloat16 (BF16), to and from wider ones.
// Pure bit work on values: no tensors and no text here.
#pragma once

#include <cstdint>
#include <optional>

namespace mme::server {

/// Exact: every 16-bit value is a float. NaN stays NaN.
[[nodiscard]] float half_to_float(std::uint16_t bits) noexcept;
[[nodiscard]] float bfloat16_to_float(std::uint16_t bits) noexcept;

/// Rounds to nearest, ties to even, in one step from the double. nullopt when a finite value would become infinite.
/// NaN and infinities pass.
[[nodiscard]] std::optional<std::uint16_t> to_half(double value) noexcept;
[[nodiscard]] std::optional<std::uint16_t> to_bfloat16(double value) noexcept;

}  // namespace mme::server
