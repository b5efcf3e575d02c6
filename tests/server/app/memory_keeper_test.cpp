// The books against the kernel, by table; and when freed memory is given back.
#include "server/app/memory_keeper.hpp"

#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kM = std::size_t{1} << 20;

MemoryVerdict of(std::size_t anon, std::size_t charged, std::size_t limit = 0) {
  return judge({anon * kM, 100 * kM, charged * kM, 80 * kM, 1000 * kM, limit * kM});
}

}  // namespace

TEST_CASE("memory that nobody charged comes off the budget beyond the reserve", "[memory]") {
  CHECK(of(100, 0).budget == 1000 * kM);
  CHECK(of(600, 500).budget == 1000 * kM);
  CHECK(of(680, 500).budget == 1000 * kM);  // all of the reserve
  CHECK(of(700, 500).budget == 980 * kM);
  CHECK(of(700, 500).uncounted == 100 * kM);
  CHECK(of(5000, 500).budget == 0);
  CHECK(of(50, 500).uncounted == 0);  // charged and not yet touched
}

TEST_CASE("near the limit the budget falls below what is charged", "[memory]") {
  CHECK(of(940, 840, 1000).budget == 1000 * kM);
  const auto verdict = of(960, 860, 1000);
  CHECK(verdict.budget < 860 * kM);
  CHECK(verdict.budget > 780 * kM);
  CHECK(of(960, 0, 1000).budget == 0);
}

TEST_CASE("what the allocator may keep is trimmed when it is much", "[memory]") {
  CHECK_FALSE(of(610, 500).trim);
  CHECK(of(617, 500).trim);
}

TEST_CASE("freed memory is given back at once when it is much, else after a pause", "[memory]") {
  TrimPolicy policy;
  const mme::loader::TimePoint start{1h};
  CHECK(policy.freed(1, start));  // the first
  CHECK_FALSE(policy.freed(kM, start + 10ms));
  CHECK_FALSE(policy.overdue(start + 99ms));
  CHECK(policy.freed(15 * kM, start + 20ms));  // 16 MiB together
  CHECK_FALSE(policy.overdue(start + 1s));     // nothing is left to give back
  CHECK(policy.freed(kM, start + 1s));
  CHECK_FALSE(policy.freed(kM, start + 1050ms));
  CHECK(policy.overdue(start + 1100ms));
  CHECK_FALSE(policy.overdue(start + 2s));
  CHECK(policy.freed(SIZE_MAX, start + 3s));
  CHECK(policy.freed(SIZE_MAX, start + 3s));
}
