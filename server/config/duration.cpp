#include "server/config/duration.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "server/config/number.hpp"

namespace mme::server {
namespace {

using loader::ErrorCode;
using loader::fail;
using std::chrono::microseconds;

struct Unit {
  std::string_view name;
  microseconds length;
};

constexpr std::array<Unit, 5> kUnits{{
    {"h", std::chrono::hours(1)},
    {"m", std::chrono::minutes(1)},
    {"s", std::chrono::seconds(1)},
    {"ms", std::chrono::milliseconds(1)},
    {"us", microseconds(1)},
}};

constexpr microseconds kLongest = std::chrono::hours(8760);

}  // namespace

loader::Result<microseconds> parse_duration(std::string_view text) {
  const auto parts = split_unit(text);
  if (!parts) return parts.error();
  if (parts->unit.empty()) return fail(ErrorCode::invalid_request, "a duration needs a unit: us, ms, s, m or h");
  const auto unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& candidate) { return candidate.name == parts->unit; });
  if (unit == kUnits.end())
    return fail(ErrorCode::invalid_request, "not a duration: the unit must be us, ms, s, m or h");
  if (parts->number > static_cast<std::uint64_t>(kLongest / unit->length)) {
    return fail(ErrorCode::invalid_request, "the duration is longer than 8760h");
  }
  return unit->length * static_cast<std::int64_t>(parts->number);
}

std::string duration_text(microseconds duration) {
  if (duration == microseconds::zero()) return "0s";
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& candidate) {
    return duration % candidate.length == microseconds::zero();
  });
  return std::to_string(duration / unit->length) + std::string(unit->name);
}

}  // namespace mme::server
