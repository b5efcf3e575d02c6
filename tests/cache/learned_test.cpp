// What is remembered of artifacts, by table: sizes, peaks, the last sizes of a name, and what leaves.
// How the cache uses it is in recall_test.
#include "cache/learned_facts.hpp"

#include <set>

#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::cache;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

ArtifactFacts facts_of(std::size_t own, std::size_t segments, std::size_t alone, std::size_t joined, std::size_t kept) {
  return {.digest = "d",
          .own_bytes = own,
          .segment_bytes = segments,
          .alone_bytes = alone,
          .joined_bytes = joined,
          .kept_bytes = kept,
          .peaks = {}};
}

}  // namespace

TEST_CASE("Learned sizes: what counts as drift and as growth") {
  CHECK_FALSE(drifted(100 * mib, 100 * mib));
  CHECK_FALSE(drifted(100 * mib, 110 * mib));
  CHECK(drifted(100 * mib, 110 * mib + 1));
  CHECK_FALSE(drifted(100 * mib, 90 * mib));
  CHECK(drifted(100 * mib, 90 * mib - 1));
  CHECK_FALSE(drifted(1'000, 1'000 + mib));  // ten times as much, but little
  CHECK(drifted(1'000, 1'001 + mib));
  CHECK_FALSE(outgrown(100 * mib, 150 * mib));
  CHECK(outgrown(100 * mib, 150 * mib + 1));
  CHECK_FALSE(outgrown(1, 1 + 16 * mib));
  CHECK(outgrown(1, 2 + 16 * mib));
  CHECK_FALSE(outgrown(150 * mib, 100 * mib));
}

TEST_CASE("Learned sizes: what is claimed outside of the segments that the estimate names") {
  struct Row {
    ArtifactFacts known;
    std::size_t told;
    std::vector<loader::Segment> named;
    std::size_t claim;
    const char* why;
  };
  const Row table[] = {
      {facts_of(50, 0, 50, 0, 0), 70, {}, 50, "the measured size, where the loader tells more"},
      {facts_of(50, 0, 50, 0, 0), 20, {}, 50, "and where it tells less"},
      {facts_of(50, 0, 80, 0, 0), 20, {}, 80, "a load holds more than what stays"},
      {facts_of(50, 0, 50, 0, 40), 20, {}, 90, "calls leave something in the model"},
      {facts_of(50, 0, 80, 0, 20), 20, {}, 80, "one after the other, not both"},
      {facts_of(5, 60, 80, 67, 0), 9, {{"w", 60}}, 7, "segments are charged by themselves"},
      {facts_of(5, 60, 80, 67, 0), 70, {}, 80, "what is made by the load and found by others"},
      {facts_of(5, 60, 80, 0, 0), 3, {{"w", 60}}, 5, "a load that was given nothing says little of one that is"},
      {facts_of(65, 0, 65, 0, 0), 9, {{"w", 60}}, 9, "measured as private, named as a segment now"},
      {facts_of(5, 60, 0, 65, 0), 70, {}, 65, "measured as a segment, private now"},
      {facts_of(5, 60, 0, 65, 0), 9, {{"w", 60}, {"code", 30}}, 5, "a segment told too large takes nothing off"},
  };
  for (const Row& row : table) {
    INFO(row.why);
    CHECK(private_bytes(row.known, {row.named, row.told}) == row.claim);
  }
}

TEST_CASE("Learned sizes: they grow with each load's noise and begin anew when they are far off") {
  LearnedFacts learned;
  const auto facts = learned.of("d");
  CHECK_FALSE(facts->measured());
  CHECK(learned.table().artifacts.empty());
  CHECK(learned.measured(*facts, {100 * mib, 0, 120 * mib, 0}) == std::nullopt);
  CHECK(facts->own_bytes == 100 * mib);
  CHECK(facts->alone_bytes == 120 * mib);
  learned.kept(*facts, 3);
  learned.kept(*facts, 2);
  CHECK(facts->kept_bytes == 3);
  const auto changes = learned.changes();
  CHECK(learned.measured(*facts, {99 * mib, 0, 0, 0}) == std::nullopt);
  CHECK(facts->own_bytes == 100 * mib);
  CHECK(learned.changes() == changes);  // nothing worth writing down
  CHECK(learned.measured(*facts, {101 * mib, 0, 0, 0}) == std::nullopt);
  CHECK(facts->own_bytes == 101 * mib);
  CHECK(learned.changes() > changes);
  CHECK(learned.measured(*facts, {50 * mib, 0, 50 * mib, 0}) == 101 * mib);
  CHECK(facts->own_bytes == 50 * mib);
  CHECK(facts->alone_bytes == 50 * mib);
  CHECK(facts->kept_bytes == 0);
}

TEST_CASE("Learned sizes: bytes that move between the model and its segments are no drift") {
  LearnedFacts learned;
  const auto facts = learned.of("d");
  (void)learned.measured(*facts, {100 * mib, 0, 100 * mib, 0});
  CHECK(learned.measured(*facts, {10 * mib, 90 * mib, 12 * mib, 90 * mib}) == std::nullopt);
  CHECK(facts->own_bytes == 10 * mib);
  CHECK(facts->segment_bytes == 90 * mib);
  CHECK(facts->alone_bytes == 100 * mib);
  CHECK(facts->joined_bytes == 102 * mib);
}

TEST_CASE("Learned names: each content that is new to a name is held against the one before it, once") {
  LearnedFacts learned;
  CHECK(learned.loaded_as("m", "v1", 10 * mib) == std::nullopt);
  CHECK(learned.loaded_as("n", "v2", 90 * mib) == std::nullopt);  // another name's business
  CHECK(learned.loaded_as("m", "v2", 90 * mib) == 10 * mib);
  CHECK(learned.loaded_as("m", "v2", 90 * mib) == std::nullopt);
  CHECK(learned.loaded_as("m", "v1", 10 * mib) == std::nullopt);
  CHECK(learned.loaded_as("m", "v2", 90 * mib) == std::nullopt);  // back and forth
  CHECK(learned.loaded_as("m", "v3", 91 * mib) == std::nullopt);
  CHECK(learned.loaded_as("m", "v1", 10 * mib) == std::nullopt);
  CHECK(learned.loaded_as("m", "v4", 60 * mib) == 10 * mib);
  const auto changes = learned.changes();
  CHECK(learned.loaded_as("m", "v4", 60 * mib + 5) == std::nullopt);
  CHECK(learned.changes() == changes);
  for (int i = 0; i < 20; ++i) (void)learned.loaded_as("m", "x" + std::to_string(i), 60 * mib);
  const auto table = learned.table();
  REQUIRE(table.names.size() == 2);
  CHECK(table.names.front().name == "m");
  CHECK(table.names.front().sizes.size() == LearnedFacts::sizes_per_name);
  CHECK(table.names.front().sizes.front().digest == "x19");
}

TEST_CASE("Learned facts: without a digest nothing is remembered") {
  LearnedFacts learned;
  CHECK(learned.of("") == nullptr);
  CHECK(learned.table().artifacts.empty());
}

TEST_CASE("Learned facts: a table that is handed over comes back as it was, in its order") {
  LearnedFacts first;
  for (const char* digest : {"a", "b", "c"}) {
    const auto facts = first.of(digest);
    (void)first.measured(*facts, {10, 20, 30, 0});
    facts->peaks.learn(1'000, 40);
    (void)first.loaded_as("model", digest, 30);
  }
  (void)first.of("a");
  LearnedFacts second;
  second.restore(first.table(), 1'000);
  const auto table = second.table();
  REQUIRE(table.artifacts.size() == 3);
  CHECK(table.artifacts[0].digest == "a");
  CHECK(table.artifacts[1].digest == "c");
  CHECK(table.artifacts[2].digest == "b");
  CHECK(table.artifacts[2].own_bytes == 10);
  CHECK(table.artifacts[2].segment_bytes == 20);
  CHECK(table.artifacts[2].alone_bytes == 30);
  CHECK(table.artifacts[2].peaks.peak(1'000) == std::size_t{40});
  REQUIRE(table.names.size() == 1);
  CHECK(table.names[0].sizes == first.table().names[0].sizes);
  CHECK(second.changes() == 0);
}

TEST_CASE("Learned facts: copied in parts while they are used, each comes once and none is missed") {
  LearnedFacts learned;
  const auto load = [&](int i) {
    const std::string key = std::to_string(i);
    (void)learned.measured(*learned.of(key), {1, 0, 0, 0});
    (void)learned.loaded_as(key, key, 1);
  };
  for (int i = 0; i < 10; ++i) load(i);
  LearnedTable parts;
  LearnedCursor at;
  for (int step = 0; learned.copy(at, 3, parts); ++step) {
    load(step < 5 ? 9 - 2 * step : 0);  // some that were copied, some that were not
  }
  const auto table = table_of_parts(std::move(parts));
  REQUIRE(table.artifacts.size() == 10);
  REQUIRE(table.names.size() == 10);
  std::set<std::string> digests, names;
  for (int i = 0; i < 10; ++i) {
    digests.insert(table.artifacts[i].digest);
    names.insert(table.names[i].name);
  }
  CHECK(digests.size() == 10);
  CHECK(names.size() == 10);
}

TEST_CASE("Learned facts: a peak that the budget could never grant is not handed over") {
  LearnedFacts first;
  const auto facts = first.of("a");
  (void)first.measured(*facts, {60, 20, 60, 0});
  facts->peaks.learn(1, 20);
  facts->peaks.learn(1'000, 21);
  LearnedFacts second;
  second.restore(first.table(), 100);
  CHECK(second.of("a")->peaks.peak(1) == std::size_t{20});
  CHECK(second.of("a")->peaks.peak(1'000) == std::nullopt);
  LearnedFacts third;
  third.restore(first.table(), 79);
  CHECK(third.of("a")->peaks.peak(1) == std::nullopt);
}

TEST_CASE("Learned facts: the least recently used leave; who holds them keeps them") {
  LearnedFacts learned;
  const auto kept = learned.of("first");
  (void)learned.measured(*kept, {1, 0, 0, 0});
  (void)learned.measured(*learned.of("second"), {1, 0, 0, 0});
  (void)learned.of("first");
  for (std::size_t i = 0; i < LearnedFacts::capacity - 1; ++i) {
    (void)learned.measured(*learned.of(std::to_string(i)), {1, 0, 0, 0});
    (void)learned.loaded_as(std::to_string(i), "d", 1);
  }
  CHECK(learned.table().artifacts.size() == LearnedFacts::capacity);
  CHECK(learned.table().artifacts.back().digest == "first");
  CHECK_FALSE(learned.of("second")->measured());
  CHECK_FALSE(learned.of("first")->measured());
  CHECK(kept->measured());
  (void)learned.loaded_as("one", "d", 1);
  (void)learned.loaded_as("more", "d", 1);
  CHECK(learned.table().names.size() == LearnedFacts::capacity);
  CHECK(learned.table().names.back().name == "1");
}

TEST_CASE("Learned peaks: news is told apart from what was known") {
  LearnedPeaks peaks;
  CHECK(peaks.learn(100, 0));
  CHECK(peaks.peak(100) == std::size_t{0});
  CHECK_FALSE(peaks.learn(100, 0));
  CHECK(peaks.learn(100, 5));
  CHECK_FALSE(peaks.learn(100, 4));
  LearnedPeaks other;
  other.learn(100, 3);
  other.learn(1'000, 9);
  peaks.merge(other);
  CHECK(peaks.peak(100) == std::size_t{5});
  CHECK(peaks.peak(1'000) == std::size_t{9});
}
