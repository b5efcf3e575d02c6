// Drives many seeded schedules through the cache. MME_SIM_SEEDS: how many; MME_SIM_FIRST: from which on; MME_SIM_STEPS:
// steps of each; MME_SIM_SEED: that one alone, with a trace. A failing seed prints itself.
#include <cstdlib>
#include <string>

#include "tests/simulation/simulation.hpp"
#include "tests/support/catch.hpp"

namespace {

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

std::string outcome(std::uint64_t seed, int steps, bool trace) {
  try {
    mme::test::Simulation(seed, trace).run(steps);
    return {};
  } catch (const std::logic_error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("The cache is right under every schedule") {
  const int steps = static_cast<int>(number("MME_SIM_STEPS", 1'000));
  if (std::getenv("MME_SIM_SEED") != nullptr) {
    CHECK(outcome(number("MME_SIM_SEED", 0), steps, true) == "");
    return;
  }
  const std::uint64_t seeds = number("MME_SIM_SEEDS", 300);
  const std::uint64_t first = number("MME_SIM_FIRST", 1);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const std::string wrong = outcome(seed, steps, false);
    if (!wrong.empty()) {
      FAIL("seed " << seed << ": " << wrong << " (again, with a trace: MME_SIM_SEED=" << seed << ")");
    }
  }
}
