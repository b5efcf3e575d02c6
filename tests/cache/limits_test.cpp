// Limits, pins and queue sizes that change while the cache runs.
#include "tests/cache/bench.hpp"
#include "tests/support/catch.hpp"

using namespace mme::test;
using namespace mme;
using cache::CacheLimits;

namespace {

CacheLimits limits(std::size_t budget) {
  CacheLimits limits;
  limits.budget = budget;
  return limits;
}

}  // namespace

TEST_CASE("Limits that change hold for what comes next") {
  Bench bench(small(100, 1));
  bench.loader.put("a", 30);
  CacheLimits next = limits(80);
  next.queue_size = 1;
  next.idle_unload = 5s;
  REQUIRE(bench.cache().set_limits(next, {}).has_value());
  CHECK(bench.cache().status().budget == 80);
  const auto runs = bench.acquire("a");
  bench.settle();
  const auto waits = bench.acquire("a");
  CHECK(waits->waits());
  CHECK(bench.acquire("a")->error == ErrorCode::queue_full);
  bench.end(runs);
  bench.end(waits);
  bench.advance(6s);
  bench.settle();
  CHECK_FALSE(bench.ready("a"));
}

TEST_CASE("A model may have a queue of its own size") {
  Bench bench(small(100, 1));
  bench.loader.put("a", 30);
  ModelSpec spec = spec_of("a");
  spec.settings.queue_size = 2;
  const auto runs = bench.acquire(spec);
  bench.settle();
  const auto first = bench.acquire(spec);
  const auto second = bench.acquire(spec);
  CHECK(second->waits());
  CHECK(bench.acquire(spec)->error == ErrorCode::queue_full);
  bench.end(runs);
  bench.end(first);
  bench.end(second);
}

TEST_CASE("What is pinned from now on stays when the same change lowers the budget") {
  Bench bench(small(100));
  bench.loader.put("old", 40);
  bench.loader.put("new", 40);
  bench.call("old");
  bench.call("new");
  REQUIRE(bench.cache().set_limits(limits(50), {"old"}).has_value());
  bench.settle();
  CHECK(bench.ready("old"));
  CHECK(bench.status_of("old")->pinned);
  CHECK_FALSE(bench.ready("new"));
}

TEST_CASE("Limits below what would be pinned are a conflict and change nothing") {
  Bench bench(small(100));
  bench.loader.put("a", 40);
  bench.loader.put("b", 40);
  bench.call("a");
  bench.call("b");
  CacheLimits next = limits(75);
  next.queue_size = 1;
  const auto refused = bench.cache().set_limits(next, {"a", "b"});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::conflict);
  CHECK(bench.cache().status().budget == 100);
  CHECK(bench.cache().status().pinned_bytes == 0);
  CHECK_FALSE(bench.status_of("a")->pinned);
  bench.check();
}

TEST_CASE("A model is pinned or let go by the next call that says so") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  bench.call("a");
  ModelSpec pinned = spec_of("a");
  pinned.settings.pinned = true;
  const auto who = bench.acquire(pinned);
  bench.end(who);
  CHECK(bench.cache().status().pinned_bytes == 60);
  const auto refused = bench.acquire("b");
  bench.settle();
  CHECK(refused->error == ErrorCode::cannot_fit);
  bench.call("a");
  CHECK(bench.cache().status().pinned_bytes == 0);
  bench.call("b");
  CHECK(bench.ready("b"));
}
