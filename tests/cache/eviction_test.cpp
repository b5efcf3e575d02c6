// How models leave memory: least recently used first, no more than needed, never while they run.
// What happens to budgets and replaced files is in other suites.
#include "tests/cache/bench.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::test;

TEST_CASE("The least recently used model leaves first (R7)") {
  Bench bench(small(100));
  for (const char* name : {"a", "b", "c"}) {
    bench.loader.put(name, 30);
    bench.call(name);
    bench.advance(2s);
  }
  bench.call("a");
  bench.loader.put("d", 30);
  bench.call("d");
  REQUIRE(bench.diary.evictions.size() == 1);
  CHECK(bench.diary.evictions[0].name == "b");
  CHECK(bench.diary.evictions[0].reason == EvictionReason::room);
  CHECK(bench.diary.evictions[0].cause == "d");
}

TEST_CASE("One eviction, not many: an eleventh twin evicts exactly one of ten") {
  Bench bench(small(640));
  for (int i = 0; i < 11; ++i) {
    const std::string name = "twin" + std::to_string(i);
    bench.loader.put(name, 64);
    bench.call(name);
  }
  CHECK(bench.diary.evictions.size() == 1);
  CHECK(bench.loader.testimony().live == 10);
}

TEST_CASE("Of the victims walked over, those that are not needed stay (R7)") {
  Bench bench(small(100));
  bench.loader.put("small", 10);
  bench.loader.put("large", 80);
  bench.loader.put("new", 80);
  bench.call("small");
  bench.call("large");
  bench.call("new");
  REQUIRE(bench.diary.evictions.size() == 1);
  CHECK(bench.diary.evictions[0].name == "large");
  CHECK(bench.ready("small"));
}

TEST_CASE("A model is never evicted while it runs; the claim waits for the lease to end") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  const auto running = bench.acquire("a");
  bench.settle();
  const auto waiting = bench.acquire("b");
  bench.settle();
  CHECK(bench.diary.evictions.empty());
  CHECK(waiting->waits());
  bench.end(running);
  bench.settle();
  CHECK(waiting->runs());
  CHECK(bench.loader.testimony().died_running == 0);
}

TEST_CASE("A loading model is never a victim, and counts in the budget") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  const auto first = bench.acquire("a");
  bench.loads.run_one();
  const auto second = bench.acquire("b");
  bench.loads.run_at(1);  // the estimate of b, while a still reads
  CHECK(bench.status_of("b")->stage == "queued");
  CHECK(bench.cache().used().loading == 60);
  bench.settle();
  CHECK(first->runs());
  CHECK(second->waits());
}

TEST_CASE("A model that was just loaded is not evicted before its first caller gets it") {
  Bench bench(small(100, 1));
  bench.loader.put("busy", 10);
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  const auto busy = bench.acquire("busy");
  bench.settle();
  const auto first = bench.acquire("a");
  const auto second = bench.acquire("b");
  bench.settle();
  CHECK(first->waits());  // for a slot
  CHECK(bench.ready("a"));
  CHECK(bench.status_of("b")->stage == "queued");
  bench.end(busy);
  CHECK(first->runs());
}

TEST_CASE("A victim stays charged until its memory is back (R8)") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  bench.call("a");
  const auto who = bench.acquire("b");
  bench.loads.run_all();
  CHECK_FALSE(bench.ready("a"));
  CHECK(bench.cache().used().draining == 60);
  CHECK(bench.cache().used().loading == 0);
  CHECK(bench.loader.testimony().loads == 1);
  bench.reaper.run_all();
  CHECK(bench.cache().used().draining == 0);
  CHECK(bench.cache().used().loading == 60);
  bench.settle();
  CHECK(who->runs());
  CHECK(bench.loader.testimony().died_elsewhere == 0);
}

TEST_CASE("A victim that is asked for again is loaded anew; the leaving one is not revived") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  bench.call("a");
  const auto other = bench.acquire("b");
  bench.loads.run_all();
  const auto again = bench.acquire("a");
  CHECK(again->waits());
  bench.settle();
  CHECK(bench.ready("b"));
  CHECK(again->waits());
}

TEST_CASE("A pinned model is never a victim") {
  Bench bench(small(100));
  bench.loader.put("pinned", 40);
  bench.loader.put("a", 40);
  bench.loader.put("b", 40);
  ModelSpec pinned = spec_of("pinned");
  pinned.settings.pinned = true;
  bench.load(pinned);
  bench.settle();
  bench.call("a");
  bench.call("b");
  REQUIRE(bench.diary.evictions.size() == 1);
  CHECK(bench.diary.evictions[0].name == "a");
  CHECK(bench.cache().status().pinned_bytes == 40);
}

TEST_CASE("A model that cannot be used any more goes when its call ends, and the next call has it loaded anew") {
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.estimate.private_bytes = artifact.footprint.private_bytes = 40;
  artifact.breaks = true;
  bench.loader.put("a", artifact);
  bench.call("a");
  bench.settle();
  REQUIRE(bench.diary.evictions.size() == 1);
  CHECK(bench.diary.evictions[0].reason == mme::cache::EvictionReason::file_changed);
  CHECK(bench.cache().used().total() == 0);
  bench.call("a");
  CHECK(bench.loader.testimony().loads == 2);
}

TEST_CASE("A segment that turns out to be a model's own is claimed by it, and again when it finds no room at first") {
  Bench bench(small(150));
  for (const char* name : {"a", "b"}) {
    FakeArtifact artifact;
    artifact.estimate = {{{"backbone", 60}}, 10};
    artifact.footprint = {{{"backbone", 60}}, 10, 0};
    if (*name == 'b') {
      artifact.made_private = artifact.estimate.segments;
      artifact.footprint = {{}, 70, 0};
    }
    bench.loader.put(name, artifact);
    bench.call(name);
  }
  CHECK(bench.cache().used().weights == 140);
  CHECK(bench.diary.evictions.empty());
  bench.unload("b");
  bench.settle();
  REQUIRE(bench.cache().set_budget(130).has_value());  // room for each, but not for both
  bench.call("b");
  CHECK(bench.cache().used().weights == 70);
  REQUIRE(bench.diary.evictions.size() == 2);
  CHECK(bench.diary.evictions[1].name == "a");
  bench.unload("b");
  bench.settle();
  CHECK(bench.cache().used().total() == 0);
}

TEST_CASE("A claim that waits behind another keeps none of the room that the other needs") {
  Bench bench(small(100, 4, 1));
  for (const char* name : {"a", "b", "c"}) {
    FakeArtifact artifact;
    artifact.estimate = {{{"backbone", 50}}, 5};
    artifact.footprint = {{{"backbone", 50}}, 5, 0};
    bench.loader.put(name, artifact);
  }
  bench.loader.put("large", 90);
  bench.loader.put("small", 5);
  bench.call("a");
  bench.call("b");
  const auto first = bench.acquire("small");
  bench.loads.run_one();  // it reads, and is the only one that may
  const auto large = bench.acquire("large");
  const auto c = bench.acquire("c");
  bench.loads.run_at(2);  // c is in the queue before large, which came first
  bench.loads.run_at(1);
  bench.loads.run_one();
  bench.end(first);
  bench.settle();
  CHECK(large->runs());
  bench.end(large);
  bench.settle();
  CHECK(c->runs());
  CHECK(bench.diary.refusals.empty());
}

TEST_CASE("What a model shares with a pinned one is counted once when it is asked what can ever fit") {
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.estimate = {{{"backbone", 40}}, 4};
  artifact.footprint = {{{"backbone", 40}}, 4, 0};
  bench.loader.put("base", artifact);
  bench.loader.put("tuned", artifact);
  ModelSpec base = spec_of("base");
  base.settings.pinned = true;
  bench.load(base);
  bench.call("tuned");
  mme::cache::CallRequest large;
  large.least_bytes = 30;
  const auto who = bench.acquire(spec_of("tuned"), large);
  bench.settle();
  CHECK_FALSE(who->error);
  bench.end(who);
  const auto again = bench.load(spec_of("tuned", 1));  // a new version, which shares the backbone as well
  bench.settle();
  CHECK_FALSE(again->error);
}

TEST_CASE("A shared segment is charged once and leaves with its last holder") {
  Bench bench(small(100));
  for (const char* name : {"a", "b"}) {
    FakeArtifact artifact;
    artifact.estimate = {{{"backbone", 60}}, 10};
    artifact.footprint = {{{"backbone", 60}}, 10, 0};
    bench.loader.put(name, artifact);
    bench.call(name);
  }
  CHECK(bench.cache().used().weights == 80);
  CHECK(bench.cache().status().shared_saved_bytes == 60);
  bench.loader.put("c", 30);
  bench.call("c");  // a alone would free 10 bytes, a and b 80: what is needed is 10
  REQUIRE(bench.diary.evictions.size() == 1);
  CHECK(bench.diary.evictions[0].name == "a");
  CHECK(bench.cache().used().weights == 100);
  bench.loader.put("d", 95);
  bench.call("d");
  CHECK(bench.cache().used().weights == 95);
}

TEST_CASE("Segments that another model holds are held at once and are not paid for again (R3)") {
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.estimate = {{{"backbone", 60}}, 10};
  artifact.footprint = {{{"backbone", 60}}, 10, 0};
  bench.loader.put("a", artifact);
  bench.loader.put("b", artifact);
  bench.loader.put("busy", 25);
  bench.call("a");
  const auto busy = bench.acquire("busy");
  bench.settle();
  const auto second = bench.acquire("b");  // needs 10: a could go, but its backbone must stay
  bench.settle();
  CHECK(second->runs());
  CHECK_FALSE(bench.ready("a"));
  CHECK(bench.cache().used().weights == 95);
}

TEST_CASE("An idle model goes after its time, measured from the end of its last call") {
  CacheOptions options = small(100);
  options.idle_unload = 2s;
  Bench bench(options);
  bench.loader.put("a", 10);
  const auto who = bench.acquire("a");
  bench.settle();
  bench.advance(5s);  // a long call
  bench.end(who);
  bench.advance(1s);
  CHECK(bench.ready("a"));
  bench.advance(1s);
  CHECK_FALSE(bench.ready("a"));
  CHECK(bench.diary.evictions.at(0).reason == EvictionReason::idle);
}

TEST_CASE("B9: without an idle limit a model stays for days, until its room is needed, and tells how long it is idle") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  bench.call("a");
  for (int hour = 0; hour < 48; ++hour) {
    bench.advance(1h);
  }
  REQUIRE(bench.ready("a"));
  CHECK(bench.status_of("a")->idle_seconds == Approx(48 * 3600));
  bench.call("b");
  CHECK_FALSE(bench.ready("a"));
}

TEST_CASE("What was decided is told before it is done: nobody runs on room whose eviction is still to be told") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.call("a");
  FakeArtifact artifact;
  artifact.estimate.private_bytes = 60;
  artifact.footprint.private_bytes = 60;
  std::size_t told = 0;
  artifact.while_loading = [&] { told = bench.diary.evictions.size(); };
  bench.loader.put("b", artifact);
  bench.reaper.set_inline(true);  // as if other threads were infinitely fast
  bench.loads.set_inline(true);
  CHECK(bench.acquire("b")->runs());
  CHECK(told == 1);
}
