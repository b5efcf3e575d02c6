#include "server/config/size.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "server/config/number.hpp"

namespace mme::server {
namespace {

using loader::ErrorCode;
using loader::fail;

struct ByteUnit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<ByteUnit, 6> kByteUnits{{
    {"GiB", std::uint64_t{1} << 30},
    {"GB", 1'000'000'000},
    {"MiB", std::uint64_t{1} << 20},
    {"MB", 1'000'000},
    {"KiB", std::uint64_t{1} << 10},
    {"KB", 1'000},
}};

// Sizes are added up as signed numbers in places; two of them must not overflow there.
constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

}  // namespace

loader::Result<std::uint64_t> parse_size(std::string_view text) {
  const auto parts = split_unit(text);
  if (!parts) return parts.error();
  std::uint64_t factor = 1;
  if (!parts->unit.empty()) {
    const auto unit = std::find_if(kByteUnits.begin(), kByteUnits.end(),
                                   [&](const ByteUnit& candidate) { return candidate.name == parts->unit; });
    if (unit == kByteUnits.end()) {
      return fail(ErrorCode::invalid_request, "not a size: the unit must be KB, MB, GB, KiB, MiB or GiB, or none");
    }
    factor = unit->bytes;
  }
  if (parts->number == 0) return fail(ErrorCode::invalid_request, "a size of 0 is not allowed");
  if (parts->number > kLargest / factor) return fail(ErrorCode::invalid_request, "the size is too large");
  return parts->number * factor;
}

std::string size_text(std::uint64_t bytes) {
  for (const auto& unit : kByteUnits) {
    if (bytes != 0 && bytes % unit.bytes == 0) return std::to_string(bytes / unit.bytes) + std::string(unit.name);
  }
  return std::to_string(bytes);
}

}  // namespace mme::server
