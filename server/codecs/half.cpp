#include "server/codecs/half.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mme::server {
namespace {

/// Layout of a 16-bit float: sign, then exponent, then fraction.
struct Format {
  int fraction_bits;
  int bias;

  [[nodiscard]] int exponent_bits() const { return 15 - fraction_bits; }
  [[nodiscard]] unsigned exponent_mask() const { return (1U << exponent_bits()) - 1U; }
  [[nodiscard]] unsigned fraction_mask() const { return (1U << fraction_bits) - 1U; }
};
constexpr Format kHalf{10, 15};
constexpr Format kBfloat16{7, 127};

float widen(std::uint16_t bits, const Format& format) noexcept {
  const unsigned exponent = (bits >> format.fraction_bits) & format.exponent_mask();
  const unsigned fraction = bits & format.fraction_mask();
  float magnitude = 0;
  if (exponent == format.exponent_mask()) {
    magnitude = fraction == 0 ? HUGE_VALF : std::bit_cast<float>(0x7FC00000U);
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), 1 - format.bias - format.fraction_bits);
  } else {
    const unsigned significand = fraction | (1U << format.fraction_bits);
    magnitude =
        std::ldexp(static_cast<float>(significand), static_cast<int>(exponent) - format.bias - format.fraction_bits);
  }
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

std::optional<std::uint16_t> narrow(double value, const Format& format) noexcept {
  const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
  const unsigned infinity = format.exponent_mask() << format.fraction_bits;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | (1U << (format.fraction_bits - 1)));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return static_cast<std::uint16_t>(sign);
  // The exponent of the value, or the smallest there is: below that the spacing stays the same (subnormals).
  const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias);
  // Scaling by a power of two is exact, so this is the only rounding. nearbyint: ties to even by default.
  const auto significand =
      static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  const unsigned hidden = 1U << format.fraction_bits;
  if (significand < hidden) return static_cast<std::uint16_t>(sign | significand);
  // A significand that rounded up to the next power of two carries into the exponent by plain addition.
  const auto biased = static_cast<unsigned>(exponent + format.bias);
  if (biased >= format.exponent_mask()) return std::nullopt;
  const unsigned bits = (biased << format.fraction_bits) + (significand - hidden);
  if (bits >= infinity) return std::nullopt;
  return static_cast<std::uint16_t>(sign | bits);
}

}  // namespace

float half_to_float(std::uint16_t bits) noexcept {
  return widen(bits, kHalf);
}
float bfloat16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}
std::optional<std::uint16_t> to_half(double value) noexcept {
  return narrow(value, kHalf);
}
std::optional<std::uint16_t> to_bfloat16(double value) noexcept {
  return narrow(value, kBfloat16);
}

}  // namespace mme::server
