// What operators and files do to the cache: overdue claims, replacement, unload, budgets, platform mode.
// Calls and plain loads have suites of their own.
#include "tests/cache/bench.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::test;

TEST_CASE("A cold model gets through a steady stream once its claim is overdue (R6)") {
  CacheOptions options = small(100, 2);
  options.claim_after = 1s;
  Bench bench(options);
  bench.loader.put("hot", 60);
  bench.loader.put("cold", 60);
  auto running = bench.acquire("hot");
  bench.settle();
  bench.finish(running, 0);
  running = bench.acquire("hot");
  const auto cold = bench.acquire("cold");
  bench.settle();
  for (int i = 0; i < 9; ++i) {  // a new call before the last one ends
    bench.advance(100ms);
    const auto next = bench.acquire("hot");
    bench.end(running);
    REQUIRE(next->runs());
    running = next;
  }
  bench.advance(100ms);
  const auto late = bench.acquire("hot");
  CHECK(late->waits());
  bench.end(running);
  bench.settle();
  CHECK(cold->runs());
  CHECK(late->waits());
  bench.end(cold);
  bench.settle();
  CHECK(late->runs());
}

TEST_CASE("A claim that finds no room in room_wait is refused with all_in_use") {
  CacheOptions options = small(100);
  options.room_wait = 30s;
  Bench bench(options);
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  const auto running = bench.acquire("a");
  bench.settle();
  const auto who = bench.acquire("b");
  bench.settle();
  bench.advance(29s);
  CHECK(who->waits());
  bench.advance(1s);
  CHECK(who->error == ErrorCode::all_in_use);
  CHECK(bench.ready("a"));
}

TEST_CASE("Only the head of the claim queue gets room; a call that fits passes it (R5)") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.loader.put("big", 90);
  bench.loader.put("small", 10);
  const auto running = bench.acquire("a");
  bench.settle();
  const auto big = bench.acquire("big");
  const auto small_one = bench.acquire("small");
  bench.settle();
  CHECK(big->waits());
  CHECK(small_one->waits());
  CallRequest request;
  request.least_bytes = 5;
  CHECK(bench.acquire("a", request)->runs());
}

TEST_CASE("A rewritten artifact is loaded beside the old one, then takes its place (R2)") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  const auto running = bench.acquire("a");
  bench.settle();
  const auto fresh = bench.acquire(spec_of("a", 1));
  CHECK(fresh->waits());
  bench.settle();
  CHECK(fresh->runs());
  CHECK(bench.cache().used().weights == 60);  // the old one still runs
  CHECK(bench.cache().status().used.weights == 30);
  CHECK(bench.cache().status().used.draining == 30);
  bench.end(running);
  bench.settle();
  CHECK(bench.cache().used().weights == 30);
  CHECK(bench.diary.evictions.at(0).reason == EvictionReason::file_changed);
  SECTION("and a caller with an old view of the disk gets the new one, not a third load") {
    bench.end(fresh);
    CHECK(bench.acquire("a")->runs());
    CHECK(bench.loader.testimony().loads == 2);
  }
}

TEST_CASE("When the new artifact cannot be loaded the old one stays and answers (R2)") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  bench.call("a");
  FakeArtifact artifact;
  SECTION("because it is broken") {
    artifact.load_error = loader::Error{ErrorCode::model_broken, "broken"};
    bench.loader.put("a", artifact);
  }
  SECTION("because there is no room for both") {
    bench.loader.put("a", 80);
  }
  const auto call = bench.acquire(spec_of("a", 1));
  const auto load = bench.load(spec_of("a", 1));
  bench.settle();
  CHECK(call->runs());
  CHECK(load->error.has_value());
  bench.end(call);
  CHECK(bench.acquire(spec_of("a", 1))->runs());  // at once: the failure is remembered
}

TEST_CASE("A model is no victim of its own replacement") {
  Bench bench(small(100));
  bench.loader.put("other", 30);
  bench.loader.put("a", 30);
  bench.call("a");
  bench.call("other");
  bench.loader.put("a", 60);
  const auto fresh = bench.acquire(spec_of("a", 1));
  bench.loads.run_one();
  CHECK(bench.diary.evictions.at(0).name == "other");
  bench.settle();
  CHECK(fresh->runs());
}

TEST_CASE("Unload answers when the memory is back, and a second one finds nothing (R8, R13)") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  bench.call("a");
  const auto who = bench.unload("a");
  CHECK(who->answers == 0);
  CHECK(bench.unload("a")->error == ErrorCode::model_unknown);
  CHECK(bench.cache().used().draining == 30);
  bench.settle();
  CHECK(who->done);
  CHECK(bench.cache().used().total() == 0);
  CHECK(bench.unload("never")->error == ErrorCode::model_unknown);
}

TEST_CASE("Unload cancels a load that is queued for room; its callers get a conflict (R13)") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  const auto running = bench.acquire("a");
  bench.settle();
  const auto waiting = bench.acquire("b");
  bench.settle();
  const auto who = bench.unload("b");
  CHECK(who->done);
  CHECK(waiting->error == ErrorCode::conflict);
}

TEST_CASE("Unload of a model that is read lets those who joined have it; later ones load anew (R13)") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  const auto joined = bench.acquire("a");
  bench.loads.run_one();
  const auto who = bench.unload("a");
  const auto later = bench.acquire("a");
  bench.settle();
  CHECK(joined->runs());
  CHECK(later->runs());
  CHECK(bench.loader.testimony().loads == 2);
  CHECK(who->answers == 0);
  bench.end(joined);
  bench.settle();
  CHECK(who->done);
  CHECK(bench.ready("a"));
}

TEST_CASE("Unload of a running model waits for it; at its deadline it says so and the drain goes on (R13)") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  const auto running = bench.acquire("a");
  bench.settle();
  const auto who = bench.unload("a", bench.clock.now() + 1s);
  CHECK(who->answers == 0);
  bench.advance(1s);
  CHECK(who->error == ErrorCode::deadline_exceeded);
  bench.end(running);
  bench.settle();
  CHECK(bench.cache().used().total() == 0);
  CHECK(bench.loader.testimony().died_running == 0);
}

TEST_CASE("A pinned model can be unloaded (R13)") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  ModelSpec pinned = spec_of("a");
  pinned.settings.pinned = true;
  bench.load(pinned);
  bench.settle();
  const auto who = bench.unload("a");
  bench.settle();
  CHECK(who->done);
}

TEST_CASE("A lower budget lets idle models go at once and running ones when they end (R14)") {
  Bench bench(small(100));
  bench.loader.put("idle", 30);
  bench.loader.put("running", 40);
  bench.call("idle");
  const auto running = bench.acquire("running");
  bench.settle();
  CHECK(bench.cache().set_budget(20).has_value());
  bench.settle();
  CHECK_FALSE(bench.ready("idle"));
  CHECK(bench.cache().used().total() == 40);
  CHECK(bench.diary.evictions.at(0).reason == EvictionReason::budget);
  bench.end(running);
  bench.settle();
  CHECK(bench.cache().used().total() == 0);
}

TEST_CASE("A budget below what pinned models and the floor need is a conflict and changes nothing (R14)") {
  CacheOptions options = small(100);
  options.activation_floor = 10;
  Bench bench(options);
  bench.loader.put("a", 30);
  ModelSpec pinned = spec_of("a");
  pinned.settings.pinned = true;
  bench.load(pinned);
  bench.settle();
  const auto result = bench.cache().set_budget(39);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == ErrorCode::conflict);
  CHECK(bench.cache().status().budget == 100);
  CHECK(bench.cache().set_budget(40).has_value());
}

TEST_CASE("Platform mode: only what was loaded exists, and nothing is evicted (R16)") {
  CacheOptions options = small(100);
  options.evicts = false;
  Bench bench(options);
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  CHECK(bench.acquire("a")->error == ErrorCode::model_unknown);
  bench.load("a");
  bench.settle();
  CHECK(bench.acquire("a")->runs());
  const auto refused = bench.load("b");
  bench.settle();
  CHECK(refused->error == ErrorCode::all_in_use);
  CHECK(bench.loader.testimony().loads == 1);
  CHECK(bench.diary.evictions.empty());
  SECTION("but what is leaving is waited for") {
    bench.unload("a");
    const auto waits = bench.load("b");
    bench.loads.run_all();
    CHECK(waits->answers == 0);
    bench.settle();
    CHECK(waits->done);
  }
  SECTION("and a call waits a second for its room") {
    const auto body = bench.cache().claim_body(35);
    CallRequest request;
    request.least_bytes = 10;
    const auto who = bench.acquire("a", request);
    bench.advance(900ms);
    CHECK(who->waits());
    bench.advance(100ms);
    CHECK(who->error == ErrorCode::activations);
  }
}

TEST_CASE("A visit keeps its model and takes no slot") {
  Bench bench(small(100, 1));
  bench.loader.put("a", 30);
  bench.call("a");
  bool visited = false;
  CHECK(bench.cache().with_model("a", std::nullopt, [&](const loader::Model& model, const cache::EntryStatus& status) {
    visited = true;
    CHECK(&model == status.model);
    bench.unload("a");
    bench.settle();
    CHECK(bench.loader.testimony().live == 1);
    CHECK(model.stateless());
  }));
  CHECK(visited);
  bench.settle();
  CHECK(bench.loader.testimony().live == 0);
  CHECK_FALSE(bench.cache().with_model("a", std::nullopt, [](const auto&, const auto&) {}));
}

TEST_CASE("The status tells who goes next, what waits and for how long") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  bench.loader.put("b", 30);
  bench.loader.put("c", 90);
  bench.call("a");
  bench.call("b");
  const auto running = bench.acquire("a");
  const auto waiting = bench.acquire("c");
  bench.settle();
  bench.advance(500ms);
  const auto status = bench.cache().status();
  CHECK(status.claims_waiting == 1);
  CHECK(status.oldest_waiting_load_seconds == Approx(0.5));
  CHECK(bench.status_of("b")->eviction_rank == std::size_t{0});
  CHECK(bench.status_of("a")->eviction_rank == std::nullopt);
  CHECK(bench.status_of("a")->leases == 1);
  CHECK(bench.status_of("c")->waiting == 1);
}

TEST_CASE("When the cache ends, waiting callers are refused and all models die on the reaper") {
  auto bench = std::make_unique<Bench>(small(100));
  bench->loader.put("a", 30);
  bench->loader.put("b", 30);
  bench->call("a");
  const auto waiting = bench->acquire("b");
  CHECK(bench->loader.testimony().live == 1);
  const std::shared_ptr<const Testimony> testimony = bench->loader.share_testimony();
  bench.reset();
  CHECK(waiting->error == ErrorCode::shutting_down);
  CHECK(testimony->live == 0);
  CHECK(testimony->died_elsewhere == 0);
}
