// What the cache does with what it learned: the next load's claim, the first calls' grants, what it tells of growth.
// A restart is a second cache that is handed the first one's table.
#include "cache/learned_facts.hpp"
#include "tests/cache/bench.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::test;

namespace {

constexpr std::size_t a_mib = std::size_t{1} << 20;

/// A model that is told as one size and is of another.
FakeArtifact artifact_of(const std::string& digest, std::size_t told, std::size_t real) {
  FakeArtifact artifact;
  artifact.estimate.private_bytes = told;
  artifact.estimate.digest = digest;
  artifact.footprint.private_bytes = real;
  artifact.load_need = real;
  return artifact;
}

CacheOptions with(cache::LearnedTable table, CacheOptions options) {
  options.learned = std::move(table);
  return options;
}

/// What is known after one load of a content of that size.
cache::LearnedTable table_of(const std::string& digest, std::size_t bytes) {
  cache::LearnedFacts learned;
  (void)learned.measured(*learned.of(digest), {bytes, 0, bytes, 0});
  return learned.table();
}

}  // namespace

TEST_CASE("After a restart the first load claims what the content took before, under any name and place") {
  cache::LearnedTable table;
  {
    Bench bench(small(100));
    bench.loader.put("a", artifact_of("d", 20, 50));
    bench.call("a");
    CHECK(bench.diary.estimates == std::vector<std::size_t>{20});
    table = bench.cache().learned();
  }
  Bench bench(with(table, small(100)));
  bench.loader.put("elsewhere", artifact_of("d", 20, 50));
  bench.loader.put("other", artifact_of("e", 20, 20));
  bench.acquire("elsewhere");
  bench.loads.run_one();
  CHECK(bench.cache().used().loading == 50);
  bench.settle();
  bench.call("other");
  CHECK(bench.diary.estimates == std::vector<std::size_t>{50, 20});
  CHECK(bench.loader.testimony().loads == 2);
}

TEST_CASE("A second load in the same process knows the size as well, of a model without a digest it does not") {
  Bench bench(small(100));
  bench.loader.put("a", artifact_of("d", 20, 50));
  bench.loader.put("b", artifact_of("", 20, 30));
  for (const char* name : {"a", "b", "a", "b"}) {
    bench.call(name);
    bench.unload(name);
    bench.settle();
  }
  CHECK(bench.diary.estimates == std::vector<std::size_t>{20, 20, 50, 20});
  CHECK(bench.cache().learned().artifacts.size() == 1);
}

TEST_CASE("After a restart the first calls start with room enough") {
  CallRequest request;
  request.input_bytes = 1'000;
  cache::LearnedTable table;
  {
    Bench bench(small(100));
    bench.loader.put("a", artifact_of("d", 20, 20));
    const auto who = bench.acquire("a", request);
    bench.settle();
    CHECK(who->lease.context(loader::Deadline::max()).granted_bytes == 0);
    bench.finish(who, 30);
    table = bench.cache().learned();
  }
  Bench bench(with(table, small(100)));
  bench.loader.put("a", artifact_of("d", 20, 20));
  const auto first = bench.acquire("a", request);
  const auto second = bench.acquire("a", request);
  bench.settle();
  REQUIRE(first->runs());
  CHECK(first->lease.context(loader::Deadline::max()).granted_bytes == 30);
  CHECK(second->runs());  // its peak is known, so it need not wait for the first to tell
}

TEST_CASE("A touched or copied file shares its peaks with the same content before") {
  Bench bench(small(100));
  bench.loader.put("a", artifact_of("d", 20, 20));
  const auto who = bench.acquire("a");
  bench.settle();
  bench.finish(who, 30);
  bench.loader.put("b", artifact_of("d", 20, 20));
  const auto copy = bench.acquire("b");
  bench.settle();
  REQUIRE(copy->runs());
  CHECK(copy->lease.context(loader::Deadline::max()).granted_bytes == 30);
}

TEST_CASE("What calls left in a model is claimed by its next load") {
  Bench bench(small(100));
  bench.loader.put("a", artifact_of("d", 20, 20));
  const auto who = bench.acquire("a");
  bench.settle();
  auto context = who->lease.context(loader::Deadline::max());
  REQUIRE(context.memory->grow(15));
  context.memory->keep(15);
  context.memory.reset();
  bench.end(who);
  bench.unload("a");
  bench.settle();
  bench.call("a");
  CHECK(bench.diary.estimates == std::vector<std::size_t>{20, 35});
  CHECK(bench.cache().used().total() == 20);
}

TEST_CASE("What is learned leaves the segments that an estimate names as they are") {
  FakeArtifact artifact = artifact_of("d", 30, 10);
  artifact.estimate.segments = {{"w", 40}};
  artifact.footprint.segments = {{"w", 40}};
  Bench bench(small(100));
  bench.loader.put("a", artifact);
  bench.loader.put("b", artifact);
  bench.call("a");
  bench.acquire("b");
  bench.loads.run_one();
  CHECK(bench.cache().used().weights == 50);
  CHECK(bench.cache().used().loading == 10);
  bench.settle();
  CHECK(bench.cache().used().weights == 60);
}

TEST_CASE("A segment that a load made its own is learned as that, and claimed as a segment again where it is named") {
  FakeArtifact artifact = artifact_of("d", 15, 50);
  artifact.estimate.segments = {{"w", 40}};
  artifact.made_private = {{"w", 40}};
  Bench bench(small(200));
  bench.loader.put("a", artifact);
  bench.call("a");
  REQUIRE(bench.cache().learned().artifacts.size() == 1);
  CHECK(bench.cache().learned().artifacts.front().own_bytes == 50);
  bench.unload("a");
  bench.settle();
  bench.call("a");
  CHECK(bench.diary.estimates == std::vector<std::size_t>{55, 55});
  bench.unload("a");
  bench.settle();
  artifact.estimate.segments.clear();
  artifact.made_private.clear();
  bench.loader.put("a", artifact);
  bench.call("a");
  CHECK(bench.diary.estimates.back() == 50);
}

TEST_CASE("A learned size that can never fit does not refuse what the loader's own estimate would load (R9)") {
  for (const bool evicts : {true, false}) {
    CacheOptions options = small(100);
    options.evicts = evicts;
    Bench bench(with(table_of("d", 400), options));
    bench.loader.put("a", artifact_of("d", 50, 50));
    const auto who = bench.load("a");
    bench.settle();
    CHECK(who->done);
    CHECK(bench.diary.estimates == std::vector<std::size_t>{50});
    if (!evicts) continue;
    bench.loader.put("b", artifact_of("e", 400, 400));
    const auto hopeless = bench.acquire("b");
    bench.settle();
    CHECK(hopeless->error == ErrorCode::cannot_fit);
  }
}

TEST_CASE("A claim that waited in vain for a learned size is tried with the loader's own before it is refused") {
  CacheOptions options = small(100);
  options.room_wait = 1s;
  options.claim_after = 10s;
  Bench bench(with(table_of("d", 80), options));
  bench.loader.put("busy", artifact_of("", 40, 40));
  bench.loader.put("a", artifact_of("d", 50, 50));
  const auto busy = bench.acquire("busy");
  bench.settle();
  const auto who = bench.acquire("a");
  bench.settle();
  CHECK(who->waits());
  bench.advance(1001ms);
  bench.settle();
  CHECK(who->runs());
}

TEST_CASE("A load that needs more than was learned has as many tries as without it") {
  CacheOptions options = small(100);
  Bench bench(with(table_of("d", 10), options));
  bench.loader.put("busy", artifact_of("", 30, 30));
  const auto busy = bench.acquire("busy");
  bench.settle();
  // Learned 10, told 60, needs 70 to load: refused beside the bystander, then as if nothing had been learned.
  auto artifact = artifact_of("d", 60, 60);
  artifact.load_need = 70;
  bench.loader.put("a", artifact);
  bench.loader.put("other", artifact_of("", 25, 25));
  const auto other = bench.acquire("other");
  bench.settle();
  REQUIRE(other->runs());
  const auto who = bench.acquire("a");
  bench.settle();
  CHECK(who->waits());
  CHECK(bench.diary.failed_loads.size() == 1);
  bench.end(other);
  bench.settle();
  CHECK(who->runs());
  CHECK(bench.diary.estimates.back() == 60);
  bench.end(who);
  bench.unload("a");
  bench.settle();
  bench.call("a");
  CHECK(bench.diary.estimates.back() == 70);
  CHECK(bench.diary.failed_loads.size() == 1);
}

TEST_CASE("A load that differs much from what was learned is told, and learned anew") {
  Bench bench(with(table_of("d", 20 * a_mib), small(100 * a_mib)));
  bench.loader.put("a", artifact_of("d", 30 * a_mib, 22 * a_mib));
  bench.call("a");
  CHECK(bench.diary.drifts.empty());
  bench.unload("a");
  bench.settle();
  bench.loader.put("a", artifact_of("d", 30 * a_mib, 30 * a_mib));
  bench.call("a");
  CHECK(bench.diary.drifts == std::vector<std::pair<std::size_t, std::size_t>>{{22 * a_mib, 30 * a_mib}});
  bench.unload("a");
  bench.settle();
  bench.call("a");
  CHECK(bench.diary.drifts.size() == 1);
}

TEST_CASE("A new version that takes far more than the one before it is told once, also after a restart") {
  using Growths = std::vector<std::pair<std::size_t, std::size_t>>;
  cache::LearnedTable table;
  const auto version = [](const char* number) {
    ModelSpec spec = spec_of(std::string("a/") + number);
    spec.name = "a";
    spec.version = number;
    return spec;
  };
  {
    Bench bench(small(200 * a_mib));
    bench.loader.put("a", artifact_of("1", 10 * a_mib, 10 * a_mib));
    bench.loader.put("b", artifact_of("2", 40 * a_mib, 40 * a_mib));
    bench.call("a");
    bench.call("b");
    CHECK(bench.diary.growths.empty());
    bench.loader.put("a", artifact_of("2", 40 * a_mib, 40 * a_mib));  // replaced in place by the content of b
    const auto replaced = bench.acquire(spec_of("a", 5));
    bench.settle();
    bench.end(replaced);
    CHECK(bench.diary.growths == Growths{{10 * a_mib, 40 * a_mib}});
    table = bench.cache().learned();
  }
  Bench bench(with(table, small(200 * a_mib)));
  bench.loader.put("a/1", artifact_of("2", 40 * a_mib, 40 * a_mib));
  bench.loader.put("a/2", artifact_of("3", 70 * a_mib, 70 * a_mib));
  for (const char* number : {"1", "2", "1", "2"}) {
    const auto who = bench.acquire(version(number));
    bench.settle();
    bench.end(who);
    bench.unload("a");
    bench.settle();
  }
  CHECK(bench.diary.growths == Growths{{40 * a_mib, 70 * a_mib}});
}

TEST_CASE("Hits learn nothing that is worth writing down") {
  Bench bench(small(100));
  bench.loader.put("a", artifact_of("d", 20, 20));
  const auto first = bench.acquire("a");
  bench.settle();
  bench.finish(first, 30);
  const auto changes = bench.cache().learned_changes();
  for (int i = 0; i < 10; ++i) bench.finish(bench.acquire("a"), 30);
  CHECK(bench.cache().learned_changes() == changes);
  bench.finish(bench.acquire("a"), 31);
  CHECK(bench.cache().learned_changes() > changes);
}
