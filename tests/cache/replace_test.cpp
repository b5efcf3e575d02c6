// Replacing offline (R2): the old model goes first, but only when there is no room for both.
// That it is loaded beside the old one otherwise, and what happens when it fails, is in change_test.cpp.
#include "tests/cache/bench.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::test;

namespace {

ModelSpec offline(std::int64_t stamp) {
  ModelSpec spec = spec_of("a", stamp);
  spec.settings.replace_offline = true;
  return spec;
}

std::vector<std::string> evicted(const Bench& bench) {
  std::vector<std::string> names;
  for (const auto& each : bench.diary.evictions) {
    names.push_back(each.name + " " + std::string(to_string(each.reason)));
  }
  return names;
}

}  // namespace

TEST_CASE("Replaced offline, a model that fits only alone lets the old one go first (R2)") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.end([&] {
    const auto who = bench.acquire(offline(0));
    bench.settle();
    return who;
  }());
  const auto fresh = bench.acquire(offline(1));
  bench.settle();
  CHECK(fresh->runs());
  CHECK(evicted(bench) == std::vector<std::string>{"a replaced"});
  CHECK(bench.cache().used().weights == 60);
  SECTION("and a caller with an old view of the disk gets the new one") {
    bench.end(fresh);
    CHECK(bench.acquire(offline(0))->runs());
    CHECK(bench.loader.testimony().loads == 2);
  }
}

TEST_CASE("Replaced offline, a model that runs is waited for, and nobody new comes to it (R2)") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  const auto running = bench.acquire(offline(0));
  bench.settle();
  const auto fresh = bench.acquire(offline(1));
  bench.settle();
  bench.advance(5s);
  CHECK(fresh->waits());
  CHECK(evicted(bench).empty());
  bench.end(running);
  bench.settle();
  CHECK(fresh->runs());
}

TEST_CASE("Replaced offline where there is room for both, the old one answers until the new one is there (R2)") {
  Bench bench(small(100));
  bench.loader.put("a", 30);
  bench.loader.put("other", 30);
  const auto old = bench.acquire(offline(0));
  bench.settle();
  bench.call("other");
  bench.end(old);
  bench.loader.put("a", 60);
  const auto fresh = bench.acquire(offline(1));
  bench.loads.run_one();
  CHECK(evicted(bench) == std::vector<std::string>{"other room"});  // idle ones before the old one
  bench.settle();
  CHECK(fresh->runs());
  CHECK(evicted(bench).back() == "a file_changed");
}

TEST_CASE("Replaced offline, a pinned model may go for its own replacement, and only for that (R2)") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  bench.loader.put("b", 60);
  ModelSpec old = offline(0);
  ModelSpec fresh = offline(1);
  old.settings.pinned = fresh.settings.pinned = true;
  const auto first = bench.acquire(old);
  bench.settle();
  bench.end(first);
  CHECK(bench.acquire("b")->waits());
  bench.settle();
  CHECK(evicted(bench).empty());
  const auto second = bench.acquire(fresh);
  bench.settle();
  CHECK(second->runs());
}

TEST_CASE("Replaced offline, a model that can never fit is refused and the old one stays (R2, R9)") {
  Bench bench(small(100));
  bench.loader.put("a", 60);
  const auto first = bench.acquire(offline(0));
  bench.settle();
  bench.end(first);
  bench.loader.put("a", 101);
  const auto load = bench.load(offline(1));
  bench.settle();
  CHECK(load->error == ErrorCode::cannot_fit);
  CHECK(evicted(bench).empty());
  CHECK(bench.ready("a"));
}
