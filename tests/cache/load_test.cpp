// How models come into memory: once, within the budget, and without a trace when they fail.
// Single-threaded; the stress test has the threads.
#include "tests/cache/bench.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::test;

TEST_CASE("A model is loaded once, however many ask for it (R1)") {
  Bench bench(small(100, 64));
  bench.loader.put("a", 10);
  std::vector<Bench::Who> callers;
  for (int i = 0; i < 64; ++i) {
    callers.push_back(bench.acquire("a"));
  }
  CHECK(bench.loads.size() == 1);
  bench.settle();
  CHECK(bench.loader.testimony().loads == 1);
  CHECK(callers[0]->runs());
  CHECK(callers[0]->lease.timing().result == CacheResult::miss);
  CHECK(callers[1]->waits());  // the first call tells what a call takes
  bench.finish(callers[0], 0);
  for (std::size_t i = 1; i < callers.size(); ++i) {
    CHECK(callers[i]->runs());
    CHECK(callers[i]->lease.timing().result == CacheResult::joined);
  }
}

TEST_CASE(
    "A loader is told whether a call waits; what calls need not wait for is done once the model was handed over") {
  Bench bench(small(100));
  FakeArtifact artifact;
  std::vector<bool> waits;
  bool handed_over = false;
  Bench::Who call;
  artifact.afterwards = [&](bool call_waits) {
    waits.push_back(call_waits);
    handed_over = call && call->runs();
  };
  bench.loader.put("a", artifact);
  bench.load("a");
  bench.settle();
  CHECK(waits == std::vector<bool>{false});
  bench.unload("a");
  bench.settle();
  call = bench.acquire("a");
  bench.settle();
  CHECK(waits == std::vector<bool>{false, true});
  CHECK(handed_over);
}

TEST_CASE("A model in memory is leased at once and without a load") {
  Bench bench(small(100));
  bench.loader.put("a", 10);
  bench.call("a");
  const auto who = bench.acquire("a");
  CHECK(who->runs());
  CHECK(who->ticket == 0);
  CHECK(who->lease.timing().result == CacheResult::hit);
  CHECK(bench.loader.testimony().loads == 1);
}

TEST_CASE("A hit does not wait for another model's load") {
  Bench bench(small(100));
  bench.loader.put("a", 10);
  bench.loader.put("b", 10);
  bench.call("a");
  const auto slow = bench.acquire("b");
  CHECK(bench.acquire("a")->runs());
  CHECK(slow->waits());
}

TEST_CASE("Unrelated loads read in parallel, up to the limit") {
  Bench bench(small(100, 4, 2));
  for (const char* name : {"a", "b", "c"}) {
    bench.loader.put(name, 10);
    bench.acquire(name);
  }
  for (int i = 0; i < 3; ++i) {
    bench.loads.run_one();  // estimates
  }
  CHECK(bench.status_of("a")->stage == "reading");
  CHECK(bench.status_of("b")->stage == "reading");
  CHECK(bench.status_of("c")->stage == "queued");
  CHECK(bench.cache().used().loading == 20);
}

TEST_CASE("Room is claimed before a byte is read, and the measured size is charged afterwards (R3)") {
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.estimate.private_bytes = 60;
  artifact.footprint = {{}, 30, 10};
  bench.loader.put("a", artifact);
  bench.acquire("a");
  bench.loads.run_one();
  CHECK(bench.cache().used().loading == 60);
  bench.loads.run_one();
  CHECK(bench.cache().used().loading == 0);
  CHECK(bench.cache().used().weights == 30);
  CHECK(bench.cache().used().code == 10);
}

TEST_CASE("Which way the weights came in is told once they are there") {
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.footprint.private_bytes = 30;
  artifact.footprint.mapped_bytes = 20;
  artifact.footprint.way = loader::LoadWay::mapped;
  artifact.footprint.way_reason = "1 weights compressed or unaligned";
  bench.loader.put("a", artifact);
  bench.acquire("a");
  bench.loads.run_one();
  CHECK_FALSE(bench.status_of("a")->way);
  bench.loads.run_one();
  CHECK(bench.status_of("a")->way == loader::LoadWay::mapped);
  CHECK(bench.status_of("a")->way_reason == "1 weights compressed or unaligned");
  CHECK(bench.status_of("a")->mapped_bytes == 20);
}

TEST_CASE("A load that outgrows its estimate takes free room while it reads") {
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.estimate.private_bytes = 20;
  artifact.load_growth = 50;
  artifact.footprint.private_bytes = 70;
  bench.loader.put("a", artifact);
  const auto who = bench.acquire("a");
  bench.settle();
  CHECK(who->runs());
  CHECK(bench.cache().used().weights == 70);
}

TEST_CASE("A load that outgrows its estimate and finds no room is queued once more with what it asked for (R10)") {
  Bench bench(small(100));
  bench.loader.put("busy", 50);
  bench.loader.put("idle", 20);
  bench.call("idle");
  auto busy = bench.acquire("busy");
  bench.settle();
  FakeArtifact artifact;
  artifact.estimate.private_bytes = 20;
  artifact.load_growth = 50;
  artifact.footprint.private_bytes = 70;
  bench.loader.put("a", artifact);
  const auto who = bench.acquire("a");
  bench.settle();
  CHECK(bench.loader.testimony().loads == 3);
  CHECK(bench.status_of("a")->stage == "queued");
  CHECK(who->waits());
  artifact.load_growth = 0;
  bench.loader.put("a", artifact);
  bench.end(busy);
  bench.settle();
  CHECK(who->runs());
  CHECK(bench.cache().used().weights == 90);
  CHECK(bench.ready("idle"));
}

TEST_CASE("A model that proves larger than there is room for goes back and is tried once more (R10)") {
  Bench bench(small(100));
  bench.loader.put("busy", 50);
  auto busy = bench.acquire("busy");
  bench.settle();
  FakeArtifact artifact;
  artifact.estimate.private_bytes = 20;
  artifact.footprint.private_bytes = 70;
  bench.loader.put("a", artifact);
  const auto who = bench.acquire("a");
  bench.settle();
  CHECK(who->waits());
  CHECK(bench.loader.testimony().live == 1);
  bench.end(busy);
  bench.settle();
  CHECK(who->runs());
  CHECK(bench.loader.testimony().loads == 3);
  CHECK(bench.loader.testimony().died_elsewhere == 0);
}

TEST_CASE("A model that could never fit is refused at once and nothing is evicted for it (R9)") {
  CacheOptions options = small(100);
  options.activation_floor = 10;
  Bench bench(options);
  bench.loader.put("a", 50);
  bench.loader.put("huge", 91);
  bench.loader.put("just", 90);
  bench.call("a");
  const auto who = bench.acquire("huge");
  bench.settle();
  CHECK(who->error == ErrorCode::cannot_fit);
  CHECK(bench.diary.evictions.empty());
  CHECK(bench.ready("a"));
  const auto fits = bench.acquire("just");
  bench.settle();
  CHECK(fits->runs());
}

TEST_CASE("What pinned models hold counts against a model that asks for room (R9)") {
  Bench bench(small(100));
  bench.loader.put("pinned", 50);
  bench.loader.put("b", 51);
  ModelSpec pinned = spec_of("pinned");
  pinned.settings.pinned = true;
  bench.load(pinned);
  bench.settle();
  const auto who = bench.acquire("b");
  bench.settle();
  CHECK(who->error == ErrorCode::cannot_fit);
  CHECK(bench.ready("pinned"));
}

TEST_CASE("A caller that goes away leaves its seat and the load goes on for the others (R11)") {
  Bench bench(small(100));
  bench.loader.put("a", 10);
  const auto first = bench.acquire("a");
  const auto second = bench.acquire("a");
  CHECK(bench.cache().leave(first->ticket));
  CHECK_FALSE(bench.cache().leave(first->ticket));
  bench.settle();
  CHECK(first->answers == 0);
  CHECK(second->runs());
}

TEST_CASE("A load that nobody waits for any more ends before it reads, and goes on once it reads (R11)") {
  Bench bench(small(100));
  bench.loader.put("a", 10);
  const auto who = bench.acquire("a");
  SECTION("before it reads") {
    CHECK(bench.cache().leave(who->ticket));
    bench.settle();
    CHECK(bench.loader.testimony().loads == 0);
    CHECK(bench.cache().status().entries.empty());
  }
  SECTION("once it reads") {
    bench.loads.run_one();
    CHECK(bench.cache().leave(who->ticket));
    bench.settle();
    CHECK(bench.ready("a"));
    CHECK(bench.acquire("a")->runs());
  }
}

TEST_CASE("An explicit load holds nothing; a second one is told that the model is loaded") {
  Bench bench(small(100));
  bench.loader.put("a", 10);
  const auto first = bench.load("a");
  const auto joined = bench.load("a");
  bench.settle();
  CHECK(first->done);
  CHECK(joined->error == ErrorCode::already_loaded);
  CHECK(bench.load("a")->error == ErrorCode::already_loaded);
  CHECK(bench.status_of("a")->leases == 0);
  CHECK(bench.loader.testimony().loads == 1);
}

TEST_CASE("A load that takes too long is answered with load_timeout and goes on") {
  CacheOptions options = small(100);
  options.load_timeout = 2s;
  Bench bench(options);
  bench.loader.put("a", 10);
  const auto who = bench.acquire("a");
  bench.loads.run_one();
  bench.advance(1s);
  CHECK(who->waits());
  bench.advance(1s);
  CHECK(who->error == ErrorCode::load_timeout);
  bench.settle();
  CHECK(bench.ready("a"));
}

TEST_CASE("A waiting caller is told when its deadline passes, and only then") {
  Bench bench(small(100));
  bench.loader.put("a", 10);
  CallRequest request;
  request.deadline = bench.clock.now() + 1s;
  const auto who = bench.acquire("a", request);
  bench.loads.run_one();
  bench.advance(999ms);
  CHECK(who->waits());
  bench.advance(1ms);
  CHECK(who->error == ErrorCode::deadline_exceeded);
  CHECK(bench.acquire("a", request)->error == ErrorCode::deadline_exceeded);
  bench.settle();
  CHECK(who->answers == 1);
  CHECK(bench.ready("a"));
}

TEST_CASE("After stop() new callers are refused and waiting ones are served") {
  Bench bench(small(100));
  bench.loader.put("a", 10);
  const auto waiting = bench.acquire("a");
  bench.cache().stop();
  CHECK(bench.acquire("a")->error == ErrorCode::shutting_down);
  CHECK(bench.load("b")->error == ErrorCode::shutting_down);
  bench.settle();
  CHECK(waiting->runs());
}

TEST_CASE("A loader is told to stop when its model could only go at once: doomed, or at the end, and nobody waits") {
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.estimate.private_bytes = artifact.footprint.private_bytes = 10;
  Bench::Who caller;
  SECTION("unloaded while it reads, and the caller leaves") {
    artifact.while_loading = [&] {
      bench.unload("a");
      CHECK(bench.cache().leave(caller->ticket));
    };
  }
  SECTION("the caller leaves, then it is unloaded") {
    artifact.while_loading = [&] {
      CHECK(bench.cache().leave(caller->ticket));
      bench.unload("a");
    };
  }
  SECTION("the cache stops, and the caller leaves") {
    artifact.while_loading = [&] {
      bench.cache().stop();
      CHECK(bench.cache().leave(caller->ticket));
    };
  }
  SECTION("the cache is closed") {
    artifact.while_loading = [&] { bench.cache().close(); };
  }
  bench.loader.put("a", artifact);
  caller = bench.acquire("a");
  bench.settle();
  CHECK(bench.loader.testimony().stopped == 1);
  CHECK(bench.cache().used().total() == 0);
  CHECK(bench.cache().status().entries.empty());
}

TEST_CASE("A load that is unloaded while callers wait for it is not stopped: they joined it (R13)") {
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.estimate.private_bytes = artifact.footprint.private_bytes = 10;
  artifact.while_loading = [&] { bench.unload("a"); };
  bench.loader.put("a", artifact);
  const auto caller = bench.acquire("a");
  bench.settle();
  CHECK(bench.loader.testimony().stopped == 0);
  CHECK(caller->runs());
}
