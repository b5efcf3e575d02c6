// What models may take, for budgets given and found, on machines large and small.
#include "server/config/memory_budget.hpp"

#include "tests/support/catch.hpp"

using namespace mme::server;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Machine machine(std::uint64_t ram, std::optional<std::uint64_t> limit = std::nullopt) {
  Machine result;
  result.ram = ram;
  result.memory_limit = limit;
  return result;
}

Settings with_budget(std::optional<std::uint64_t> budget, std::optional<std::uint64_t> floor = std::nullopt) {
  Settings settings;
  settings.cache.memory_budget = budget;
  settings.cache.activation_floor = floor;
  return settings;
}

}  // namespace

TEST_CASE("the reserve grows with the threads that run kernels", "[budget]") {
  CHECK(memory_reserve(0) == 64 * kMiB);
  CHECK(memory_reserve(4) == 88 * kMiB);
}

TEST_CASE("G16: auto is a share of the cgroup limit, not of the host", "[budget]") {
  const auto result = memory_budget(with_budget({}), machine(256 * kGiB, 1000 * kMiB), 100 * kMiB, 4);
  REQUIRE(result.has_value());
  CHECK(result->budget == 850 * kMiB - 100 * kMiB - 88 * kMiB);
  CHECK(result->reserve == 88 * kMiB);
  CHECK(result->limit == 1000 * kMiB);
  CHECK_FALSE(result->warning);
  CHECK(result->origin == "auto: 85 % of the cgroup limit of 1000MiB, less 188MiB for the process and its reserve");
}

TEST_CASE("auto without a cgroup limit is a smaller share of the RAM", "[budget]") {
  const auto result = memory_budget(with_budget({}), machine(1000 * kMiB), 100 * kMiB, 4);
  REQUIRE(result.has_value());
  CHECK(result->budget == 750 * kMiB - 188 * kMiB);
}

TEST_CASE("auto on a machine too small, or that tells nothing, is refused", "[budget]") {
  const auto small = memory_budget(with_budget({}), machine(kGiB, 128 * kMiB), 50 * kMiB, 2);
  REQUIRE(small.has_error());
  CHECK(small.error().message ==
        "85 % of the cgroup limit of 128MiB leaves no room for models: the process and its reserve take 126MiB");
  CHECK(memory_budget(with_budget({}), machine(0), 50 * kMiB, 2).has_error());
}

TEST_CASE("a given budget is taken as it is", "[budget]") {
  const auto result = memory_budget(with_budget(512 * kMiB), machine(kGiB), 100 * kMiB, 2);
  REQUIRE(result.has_value());
  CHECK(result->budget == 512 * kMiB);
  CHECK_FALSE(result->warning);
  CHECK(memory_budget(with_budget(512 * kMiB), machine(0), 0, 2)->budget == 512 * kMiB);
}

TEST_CASE("a given budget above the limit is refused, one that is tight is warned of", "[budget]") {
  const auto above = memory_budget(with_budget(4 * kGiB), machine(64 * kGiB, 512 * kMiB), 100 * kMiB, 2);
  REQUIRE(above.has_error());
  CHECK(above.error().message == "cache.memory_budget of 4GiB is above the cgroup limit of 512MiB");
  const auto tight = memory_budget(with_budget(500 * kMiB), machine(64 * kGiB, 512 * kMiB), 100 * kMiB, 2);
  REQUIRE(tight.has_value());
  REQUIRE(tight->warning);
  CHECK(*tight->warning ==
        "cache.memory_budget of 500MiB and 176MiB for the process and its reserve are above the cgroup limit of "
        "512MiB; the process may be killed when the budget is full");
}

TEST_CASE("a budget that just fits is not warned of", "[budget]") {
  const std::uint64_t beside = 100 * kMiB + memory_reserve(2);
  CHECK_FALSE(memory_budget(with_budget(kGiB - beside), machine(kGiB), 100 * kMiB, 2)->warning);
  CHECK(memory_budget(with_budget(kGiB - beside + 1), machine(kGiB), 100 * kMiB, 2)->warning);
}

TEST_CASE("the activation floor is a twentieth, at least 32 MiB, at most half", "[budget]") {
  const auto floor_of = [](std::uint64_t budget) {
    return memory_budget(with_budget(budget), machine(64 * kGiB), 0, 1)->activation_floor;
  };
  CHECK(floor_of(10 * kGiB) == 512 * kMiB);
  CHECK(floor_of(100 * kMiB) == 32 * kMiB);
  CHECK(floor_of(40 * kMiB) == 20 * kMiB);
  CHECK(memory_budget(with_budget(kGiB, 7 * kMiB), machine(64 * kGiB), 0, 1)->activation_floor == 7 * kMiB);
}

TEST_CASE("a floor that fills an automatic budget is refused", "[budget]") {
  CHECK(memory_budget(with_budget({}, 2 * kGiB), machine(kGiB), 0, 1).has_error());
}
