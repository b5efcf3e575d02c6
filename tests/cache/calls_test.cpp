// Who runs when, and with how much room: slots, grants, fairness, growth, stuck calls.
// Sizes are single bytes so that sums can be read.
#include "tests/cache/bench.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::test;

namespace {

using Recoveries = std::vector<std::pair<std::string, cache::StuckWork>>;

CallRequest needs(std::size_t bytes) {
  CallRequest request;
  request.least_bytes = bytes;
  return request;
}

}  // namespace

TEST_CASE("No more calls run than there are slots, and the next starts when one ends (R4)") {
  Bench bench(small(100, 2));
  bench.loader.put("a", 10);
  bench.call("a");
  bench.advance(2s);
  const auto first = bench.acquire("a", needs(1));
  const auto second = bench.acquire("a", needs(1));
  const auto third = bench.acquire("a", needs(1));
  CHECK(first->runs());
  CHECK(second->runs());
  CHECK(third->waits());
  CHECK(bench.cache().used().activations == 2);  // who waits holds nothing
  bench.end(first);
  CHECK(third->runs());
}

TEST_CASE("A full queue refuses with queue_full") {
  CacheOptions options = small(100, 1);
  options.queue_size = 2;
  Bench bench(options);
  bench.loader.put("a", 10);
  const auto running = bench.acquire("a");
  bench.settle();
  const auto first = bench.acquire("a");
  const auto second = bench.acquire("a");
  CHECK(bench.acquire("a")->error == ErrorCode::queue_full);
  bench.end(running);
  CHECK(first->runs());
  bench.end(first);
  CHECK(second->runs());
}

TEST_CASE("Of calls whose peak is unknown one runs at a time; once it is known they run together (R10)") {
  Bench bench(small(100, 4));
  bench.loader.put("a", 10);
  const auto first = bench.acquire("a");
  bench.settle();
  const auto second = bench.acquire("a");
  const auto third = bench.acquire("a");
  CHECK(second->waits());
  bench.finish(first, 5);
  CHECK(second->runs());
  CHECK(third->runs());
  CHECK(second->lease.context(loader::Deadline::max()).granted_bytes == 5);
  CHECK(bench.cache().used().activations == 10);
}

TEST_CASE("Peaks are learned by the power of two of the input, and survive eviction") {
  Bench bench(small(100, 4));
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  CallRequest large;
  large.input_bytes = 1'000;
  const auto first = bench.acquire("a", large);
  bench.settle();
  bench.finish(first, 9);
  bench.call("b");
  CHECK_FALSE(bench.ready("a"));
  const auto again = bench.acquire("a", large);
  bench.settle();
  CHECK(again->lease.context(loader::Deadline::max()).granted_bytes == 9);
  CallRequest small_input;
  small_input.input_bytes = 10;
  const auto other = bench.acquire("a", small_input);
  CHECK(other->runs());
  CHECK(other->lease.context(loader::Deadline::max()).granted_bytes == 0);
}

TEST_CASE("A stateful model runs one call at a time") {
  Bench bench(small(100, 4));
  FakeArtifact artifact;
  artifact.stateless = false;
  bench.loader.put("a", artifact);
  const auto first = bench.acquire("a", needs(1));
  bench.settle();
  const auto second = bench.acquire("a", needs(1));
  CHECK(second->waits());
  bench.end(first);
  CHECK(second->runs());
}

TEST_CASE("While another model was active in the last second, one model leaves it a slot (R17)") {
  Bench bench(small(100, 3));
  bench.loader.put("a", 10);
  bench.loader.put("b", 10);
  bench.call("a");
  bench.call("b");
  std::vector<Bench::Who> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(bench.acquire("a", needs(1)));
  }
  CHECK(calls[1]->runs());
  CHECK(calls[2]->waits());
  SECTION("which the other one gets at once") {
    CHECK(bench.acquire("b", needs(1))->runs());
  }
  SECTION("until the second is over") {
    bench.advance(1s);
    CHECK(calls[2]->runs());
  }
}

TEST_CASE("With one slot models take turns (R17)") {
  Bench bench(small(100, 1));
  bench.loader.put("a", 10);
  bench.loader.put("b", 10);
  bench.call("a");
  bench.call("b");
  const auto running = bench.acquire("a");
  const auto a1 = bench.acquire("a");
  const auto a2 = bench.acquire("a");
  const auto b1 = bench.acquire("b");
  bench.end(running);
  CHECK(a1->runs());
  bench.end(a1);
  CHECK(b1->runs());
  CHECK(a2->waits());
}

TEST_CASE("A call that must be alone starts when no other runs, and nobody starts beside it (R10)") {
  Bench bench(small(100, 4));
  bench.loader.put("a", 10);
  bench.loader.put("b", 10);
  bench.call("a");
  bench.call("b");
  const auto other = bench.acquire("b", needs(1));
  CallRequest alone = needs(50);
  alone.alone = true;
  const auto who = bench.acquire("a", alone);
  CHECK(who->waits());
  bench.end(other);
  CHECK(who->runs());
  const auto later = bench.acquire("b", needs(1));
  CHECK(later->waits());
  bench.end(who);
  CHECK(later->runs());
}

TEST_CASE("Growth in mid-call takes free room, then that of idle models, else it is refused (R10)") {
  Bench bench(small(100, 4));
  bench.reaper.set_inline(true);
  bench.loader.put("a", 30);
  bench.loader.put("idle", 40);
  bench.call("idle");
  const auto who = bench.acquire("a");
  bench.settle();
  auto grant = who->lease.context(loader::Deadline::max()).memory;
  CHECK(grant->grow(30));
  CHECK(bench.ready("idle"));
  CHECK(grant->grow(10));
  CHECK_FALSE(bench.ready("idle"));
  CHECK(bench.diary.evictions.at(0).reason == EvictionReason::activations);
  CHECK(bench.diary.evictions.at(0).cause == "a");
  CHECK_FALSE(grant->grow(31));
  CHECK(grant->grow(30));
  CHECK(bench.cache().used().activations == 70);
  grant->shrink(70);
  CHECK(bench.cache().used().activations == 0);
}

TEST_CASE("What outputs still hold stays charged when the lease has ended, until the grant ends") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  const auto who = bench.acquire("a");
  bench.settle();
  auto grant = who->lease.context(loader::Deadline::max()).memory;
  REQUIRE(grant->grow(20));
  bench.end(who);
  CHECK(bench.cache().used().activations == 20);
  grant->shrink(5);
  CHECK(bench.cache().used().activations == 15);
  grant.reset();
  CHECK(bench.cache().used().activations == 0);
}

TEST_CASE("What a call leaves in its model is charged to the model and leaves with it") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  const auto who = bench.acquire("a");
  bench.settle();
  auto grant = who->lease.context(loader::Deadline::max()).memory;
  REQUIRE(grant->grow(20));
  grant->keep(5);
  CHECK(bench.cache().used().code == 5);
  CHECK(bench.cache().used().activations == 15);
  grant.reset();
  bench.end(who);
  CHECK(bench.cache().used().total() == 35);
  bench.unload("a");
  bench.settle();
  CHECK(bench.cache().used().total() == 0);
}

TEST_CASE("What a call leaves in code that models share is charged once and leaves with the last of them") {
  Bench bench(small(100));
  for (const char* name : {"a", "b"}) {
    mme::test::FakeArtifact artifact;
    artifact.estimate.private_bytes = 15;
    artifact.footprint = {{{"code", 10, true}}, 5};
    bench.loader.put(name, artifact);
    bench.load(name);
  }
  bench.settle();
  CHECK(bench.cache().used().code == 10);
  CHECK(bench.cache().used().weights == 10);
  const auto who = bench.acquire("a");
  bench.settle();
  auto grant = who->lease.context(loader::Deadline::max()).memory;
  REQUIRE(grant->grow(20));
  grant->keep_in_code(7);
  CHECK(bench.cache().used().code == 17);
  grant.reset();
  bench.end(who);
  bench.unload("a");
  bench.settle();
  CHECK(bench.cache().used().code == 17);
  CHECK(bench.cache().used().weights == 5);
  bench.unload("b");
  bench.settle();
  CHECK(bench.cache().used().total() == 0);
}

TEST_CASE("A call that needs more than there can ever be is refused with activations") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  bench.call("a");
  CHECK(bench.acquire("a", needs(71))->error == ErrorCode::activations);
  CHECK(bench.acquire("a", needs(70))->runs());
}

TEST_CASE("A call that is short of room waits, and idle models go for it") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  bench.loader.put("idle", 40);
  bench.call("a");
  bench.call("idle");
  const auto who = bench.acquire("a", needs(50));
  CHECK(who->waits());
  bench.settle();
  CHECK(who->runs());
  CHECK_FALSE(bench.ready("idle"));
}

TEST_CASE("Bodies are charged, refused when there is no room, and make idle models go for the next try") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.call("a");
  const auto body = bench.cache().claim_body(30);
  REQUIRE(body != nullptr);
  CHECK(bench.cache().used().bodies == 30);
  CHECK(bench.cache().claim_body(30) == nullptr);
  bench.settle();
  CHECK_FALSE(bench.ready("a"));
  CHECK(bench.cache().claim_body(30) != nullptr);
  CHECK(bench.cache().claim_body(100) == nullptr);
}

TEST_CASE("The largest learned batch-1 peak raises the floor that weights never fill (R10)") {
  Bench bench(small(100));
  bench.loader.put("a", 10);
  const auto first = bench.acquire("a");
  bench.settle();
  bench.finish(first, 20);
  CHECK(bench.cache().status().activation_floor == 20);
  bench.loader.put("b", 81);
  const auto who = bench.acquire("b");
  bench.settle();
  CHECK(who->error == ErrorCode::cannot_fit);
}

TEST_CASE("A call far past its deadline is written off: its model is quarantined, its slot goes on (R15)") {
  Bench bench(small(100, 1));
  bench.loader.put("stuck", 10);
  bench.loader.put("b", 10);
  CallRequest request;
  request.deadline = bench.clock.now() + 1s;
  const auto stuck = bench.acquire("stuck", request);
  bench.settle();
  const auto waiting = bench.acquire("stuck");
  const auto other = bench.acquire("b");
  bench.settle();
  bench.advance(5s);
  CHECK(other->waits());
  bench.advance(1s);
  CHECK(bench.diary.quarantines == std::vector<std::string>{"stuck"});
  CHECK(other->runs());
  CHECK(waiting->error == ErrorCode::quarantined);
  CHECK(bench.acquire("stuck")->error == ErrorCode::quarantined);
  CHECK(bench.cache().used().weights == 20);  // its bytes stay charged
  CHECK(bench.status_of("stuck")->quarantined);
  CHECK(bench.cache().status().stuck_calls == 1);
  CHECK(bench.diary.recoveries.empty());
  bench.end(stuck);
  CHECK(bench.diary.recoveries == Recoveries{{"stuck", cache::StuckWork::call}});
  CHECK(bench.cache().status().stuck_calls == 0);
  bench.end(other);
  CHECK(bench.acquire("stuck")->runs());
}

TEST_CASE("A stuck call costs the other models no slot: its thread was replaced (R15, R17)") {
  Bench bench(small(100, 2));
  for (const char* name : {"stuck", "b"}) {
    bench.loader.put(name, 10);
  }
  const auto warm = bench.acquire("b");
  bench.settle();
  bench.finish(warm, 0);  // its peak is known
  CallRequest request;
  request.deadline = bench.clock.now() + 1s;
  const auto stuck = bench.acquire("stuck", request);
  bench.settle();
  bench.advance(10s);
  const auto first = bench.acquire("b");
  const auto second = bench.acquire("b");
  CHECK(first->runs());
  CHECK(second->runs());
}

TEST_CASE("A load far past its time is written off and another takes its place (R15)") {
  CacheOptions options = small(100, 1, 1);
  options.load_timeout = 2s;
  Bench bench(options);
  bench.loader.put("stuck", 10);
  bench.loader.put("b", 10);
  const auto stuck = bench.acquire("stuck");
  bench.loads.run_one();
  const auto other = bench.acquire("b");
  bench.loads.run_at(1);
  bench.advance(2s);
  CHECK(stuck->error == ErrorCode::load_timeout);
  CHECK(bench.status_of("b")->stage == "queued");
  bench.advance(5s);
  CHECK(bench.acquire("stuck")->error == ErrorCode::quarantined);
  CHECK(bench.status_of("b")->stage == "reading");
  CHECK(bench.cache().status().stuck_loads == 1);
  bench.settle();
  CHECK(bench.diary.recoveries == Recoveries{{"stuck", cache::StuckWork::load}});
  CHECK(bench.cache().status().stuck_loads == 0);
  CHECK(other->runs());
  CHECK(bench.ready("stuck"));
}

TEST_CASE("While every loader thread is busy with the same load, its age is told though nobody waits for it") {
  CacheOptions options = small(100, 1, 1);
  options.load_timeout = 300s;
  Bench bench(options);
  bench.loader.put("a", 10);
  CallRequest request;
  request.deadline = bench.clock.now() + 1s;
  const auto gone = bench.acquire("a", request);
  bench.loads.run_one();
  bench.advance(10s);
  CHECK(gone->error == ErrorCode::deadline_exceeded);
  CHECK(bench.cache().oldest_waiting_load_seconds() == Approx(10));
  bench.settle();
  CHECK(bench.ready("a"));
  CHECK(bench.cache().oldest_waiting_load_seconds() == 0);
}
