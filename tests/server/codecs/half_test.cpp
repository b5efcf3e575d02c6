// Sixteen-bit floats: every value there is, and the rounding between them.
#include "server/codecs/half.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"

using namespace mme::server;

namespace {

template <class Widen, class Narrow>
int count_changed(Widen widen, Narrow narrow) {
  int changed = 0;
  for (unsigned bits = 0; bits <= 0xFFFF; ++bits) {
    const float value = widen(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) continue;
    changed += narrow(static_cast<double>(value)) != static_cast<std::uint16_t>(bits) ? 1 : 0;
  }
  return changed;
}

}  // namespace

TEST_CASE("every half and every bfloat16 that is a number survives the way to float and back", "[half]") {
  CHECK(count_changed(&half_to_float, &to_half) == 0);
  CHECK(count_changed(&bfloat16_to_float, &to_bfloat16) == 0);
}

TEST_CASE("known halves have their textbook values", "[half]") {
  CHECK(half_to_float(0x3C00) == 1.0F);
  CHECK(half_to_float(0xC000) == -2.0F);
  CHECK(half_to_float(0x7BFF) == 65504.0F);
  CHECK(half_to_float(0x0001) == std::ldexp(1.0F, -24));
  CHECK(half_to_float(0x03FF) == std::ldexp(1023.0F, -24));
  CHECK(half_to_float(0x7C00) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(half_to_float(0x7E00)));
  CHECK(std::signbit(half_to_float(0x8000)));
  CHECK(bfloat16_to_float(0x3F80) == 1.0F);
  CHECK(bfloat16_to_float(0x4049) == 3.140625F);
}

TEST_CASE("narrowing rounds to nearest with ties to even, in one step", "[half]") {
  CHECK(to_half(1.0 + std::ldexp(1.0, -11)) == 0x3C00);                         // tie, down to even
  CHECK(to_half(1.0 + 3 * std::ldexp(1.0, -11)) == 0x3C02);                     // tie, up to even
  CHECK(to_half(1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)) == 0x3C01);  // a float would have lost the rest
  CHECK(to_half(std::ldexp(1.0, -25)) == 0x0000);                               // tie between 0 and the smallest
  CHECK(to_half(std::ldexp(1.5, -25)) == 0x0001);
  CHECK(to_half(std::nextafter(std::ldexp(1.0, -14), 0.0)) == 0x0400);  // subnormal rounds up to normal
  CHECK(to_half(1e-300) == 0x0000);
  CHECK(to_half(-1e-300) == 0x8000);
  CHECK(to_half(std::numeric_limits<double>::denorm_min()) == 0x0000);
}

TEST_CASE("a finite value never becomes infinite", "[half]") {
  CHECK(to_half(65504.0) == 0x7BFF);
  CHECK(to_half(65519.99) == 0x7BFF);
  CHECK(to_half(65520.0) == std::nullopt);
  CHECK(to_half(1e300) == std::nullopt);
  CHECK(to_half(-65520.0) == std::nullopt);
  CHECK(to_bfloat16(3.3895313892515355e38) == 0x7F7F);
  CHECK(to_bfloat16(3.4e38) == std::nullopt);
  CHECK(to_half(std::numeric_limits<double>::infinity()) == 0x7C00);
  CHECK(to_half(-std::numeric_limits<double>::infinity()) == 0xFC00);
  CHECK(to_half(std::numeric_limits<double>::quiet_NaN()) == 0x7E00);
}
