// Drives many seeded schedules through the cache. MME_SIM_SEEDS: how many; MME_SIM_FIRST: from which on; MME_SIM_STEPS:
// steps of each; MME_SIM_SEED: that one alone, with a trace. A failing seed prints itself.
#include <cstdlib>
#include <map>
#include <string>

#include "tests/simulation/simulation.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::test;

namespace {

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

/// All that happened in any of the schedules, by name.
using Reached = std::map<std::string, std::size_t>;

void note(const Diary& diary, Reached& reached) {
  for (const Diary::Eviction& eviction : diary.evictions) {
    ++reached["evicted: " + std::string(to_string(eviction.reason))];
  }
  for (const loader::ErrorCode code : diary.refusals) {
    ++reached["refused: " + std::string(loader::reason(code))];
  }
  reached["quarantined"] += diary.quarantines.size();
  for (const auto& [model, work] : diary.recoveries) {
    ++reached["recovered: " + std::string(to_string(work))];
  }
}

std::string outcome(std::uint64_t seed, int steps, bool trace, Reached& reached) {
  try {
    Simulation simulation(seed, trace);
    simulation.run(steps);
    note(simulation.diary(), reached);
    return {};
  } catch (const std::logic_error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("The cache is right under every schedule") {
  const int steps = static_cast<int>(number("MME_SIM_STEPS", 1'000));
  Reached reached;
  if (std::getenv("MME_SIM_SEED") != nullptr) {
    CHECK(outcome(number("MME_SIM_SEED", 0), steps, true, reached) == "");
    return;
  }
  const std::uint64_t seeds = number("MME_SIM_SEEDS", 300);
  const std::uint64_t first = number("MME_SIM_FIRST", 1);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const std::string wrong = outcome(seed, steps, false, reached);
    if (!wrong.empty()) {
      FAIL("seed " << seed << ": " << wrong << " (again, with a trace: MME_SIM_SEED=" << seed << ")");
    }
  }
  // A schedule that never gets anywhere proves nothing.
  if (seeds < 100) {
    return;
  }
  for (const char* place :
       {"evicted: room",          "evicted: idle",        "evicted: unload",       "evicted: replaced",
        "evicted: file_changed",  "evicted: budget",      "evicted: activations",  "refused: all_in_use",
        "refused: cannot_fit",    "refused: activations", "refused: queue_full",   "refused: deadline_exceeded",
        "refused: load_timeout",  "refused: conflict",    "refused: model_broken", "refused: internal",
        "refused: model_unknown", "refused: quarantined", "quarantined",           "recovered: call",
        "recovered: load"}) {
    INFO(place);
    CHECK(reached[place] > 0);
  }
}
