// The pure parts of the cache, by table: victims, segments, what is remembered.
// The rules that use them are tested through the cache.
#include <random>

#include "cache/broken_memory.hpp"
#include "cache/learned_peaks.hpp"
#include "cache/turns.hpp"
#include "cache/victims.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_loader.hpp"
#include "tests/support/victims_by_the_book.hpp"

using namespace mme;
using namespace mme::cache;
using namespace std::chrono_literals;

namespace {

using mme::test::by_the_book;
using mme::test::Indices;

std::optional<Indices> choose(const std::vector<std::size_t>& sizes, std::size_t need) {
  std::vector<Candidate> candidates;
  for (const std::size_t size : sizes) {
    candidates.push_back({size, {}});
  }
  return choose_victims(candidates, need);
}

}  // namespace

TEST_CASE("Victims: from the least recently used, and none that is not needed") {
  CHECK(choose({10, 20, 30}, 0) == Indices{});
  CHECK(choose({10, 20, 30}, 10) == Indices{0});
  CHECK(choose({10, 20, 30}, 11) == Indices{1});
  CHECK(choose({10, 20, 30}, 30) == Indices{0, 1});
  CHECK(choose({10, 20, 30}, 31) == Indices{0, 2});
  CHECK(choose({10, 20, 30}, 60) == Indices{0, 1, 2});
  CHECK(choose({10, 20, 30}, 61) == std::nullopt);
  CHECK(choose({0, 0, 5}, 5) == Indices{2});
  CHECK(choose({}, 1) == std::nullopt);
}

TEST_CASE("Victims: a segment counts only when all its live holders go") {
  SegmentRecord shared{.key = "s", .bytes = 50, .loading = 0, .ready = 2, .draining = 0};
  std::vector<SegmentRecord*> holds{&shared};
  const std::vector<Candidate> both{{5, holds}, {5, holds}};
  CHECK(choose_victims(both, 5) == Indices{0});
  CHECK(choose_victims(both, 6) == Indices{0, 1});
  CHECK(choose_victims(both, 60) == Indices{0, 1});
  shared.loading = 1;
  CHECK(choose_victims(both, 11) == std::nullopt);
  shared = {.key = "s", .bytes = 50, .loading = 0, .ready = 2, .draining = 3};
  CHECK(choose_victims(both, 60) == Indices{0, 1});
}

TEST_CASE("Victims: chosen as the rule's own words choose them, in random families") {
  std::mt19937 random(7);
  const auto below = [&](std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); };
  for (int round = 0; round < 5'000; ++round) {
    std::vector<SegmentRecord> segments(1 + below(5));
    for (SegmentRecord& segment : segments) {
      segment.bytes = 1 + below(40);
      segment.loading = below(8) == 0 ? 1 : 0;
    }
    std::vector<std::vector<SegmentRecord*>> holds(1 + below(8));
    std::vector<Candidate> candidates;
    for (auto& held : holds) {
      for (SegmentRecord& segment : segments) {
        if (below(3) == 0) {
          held.push_back(&segment);
          ++segment.ready;
        }
      }
      candidates.push_back({below(30), held});
    }
    const std::size_t need = below(150);
    REQUIRE(choose_victims(candidates, need) == by_the_book(candidates, need));
  }
}

TEST_CASE("Segments: charged once, as what its most settled holder is, until the last lets go") {
  Charges charges;
  SegmentTable table(charges);
  SegmentRecord* segment = table.hold({"s", 10}, Holding::loading);
  CHECK(charges.use().loading == 10);
  CHECK(table.hold({"s", 10}, Holding::loading) == segment);
  table.move(segment, Holding::loading, Holding::ready);
  CHECK(charges.use().weights == 10);
  CHECK(charges.total() == 10);
  CHECK(table.saved_bytes() == 10);
  table.move(segment, Holding::ready, Holding::draining);
  CHECK(charges.use().loading == 10);
  table.drop(segment, Holding::loading);
  CHECK(charges.use().draining == 10);
  table.drop(segment, Holding::draining);
  CHECK(charges.total() == 0);
  CHECK(table.find("s") == nullptr);
}

TEST_CASE("Broken artifacts: remembered for ten seconds, a thousand at most, the oldest first to go") {
  BrokenMemory memory;
  const TimePoint start{1h};
  const Error error{ErrorCode::model_broken, "broken"};
  for (int i = 0; i < 1'001; ++i) {
    memory.remember(test::spec_of("m" + std::to_string(i)).artifact, error, start + std::chrono::milliseconds(i));
  }
  CHECK(memory.size() == BrokenMemory::capacity);
  CHECK(memory.find(test::spec_of("m0").artifact, start + 1s) == nullptr);
  REQUIRE(memory.find(test::spec_of("m1").artifact, start + 2s) != nullptr);
  CHECK(memory.find(test::spec_of("m1").artifact, start + 2s)->message == "broken");
  CHECK(memory.find(test::spec_of("m1").artifact, start + 10s) != nullptr);
  CHECK(memory.find(test::spec_of("m1").artifact, start + 11s) == nullptr);
  CHECK(memory.find(test::spec_of("m1", 5).artifact, start + 2s) == nullptr);
  memory.forget(test::spec_of("m2").artifact);
  CHECK(memory.find(test::spec_of("m2").artifact, start + 2s) == nullptr);
}

TEST_CASE("Peaks: the largest seen, by power of two of the input") {
  LearnedPeaks peaks;
  CHECK(peaks.peak(0) == std::nullopt);
  CHECK(peaks.smallest() == 0);
  peaks.learn(1'000, 70);
  peaks.learn(1'023, 50);
  CHECK(peaks.peak(512) == std::size_t{70});
  CHECK(peaks.peak(1'024) == std::nullopt);
  peaks.learn(3, 20);
  CHECK(peaks.smallest() == 20);
}

TEST_CASE("Recent models: another than this one, within a second") {
  RecentModels recent;
  const TimePoint start{1h};
  CHECK_FALSE(recent.other_than(1, start));
  recent.touch(1, start);
  CHECK_FALSE(recent.other_than(1, start));
  CHECK(recent.other_than(2, start));
  recent.touch(2, start);
  recent.touch(1, start + 500ms);
  CHECK(recent.other_than(1, start + 999ms));
  CHECK_FALSE(recent.other_than(1, start + 1s));
}
