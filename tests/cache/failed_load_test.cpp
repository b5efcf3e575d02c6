// Loads that fail: everybody hears of it, nothing stays, and what is broken is remembered for a while (R12).
// Single-threaded; the stress test has the threads.
#include "tests/cache/bench.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::test;

TEST_CASE("A failed load gives all its callers the same error and leaves nothing behind (R12)") {
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.estimate.private_bytes = 20;
  artifact.load_error = loader::Error{ErrorCode::internal, "the disk failed"};
  bench.loader.put("a", artifact);
  const auto first = bench.acquire("a");
  const auto second = bench.acquire("a");
  const auto third = bench.load("a");
  bench.settle();
  for (const auto& who : {first, second, third}) {
    CHECK(who->answers == 1);
    CHECK(who->error == ErrorCode::internal);
    CHECK(who->message == "the disk failed");
  }
  CHECK(bench.cache().used().total() == 0);
  CHECK(bench.cache().status().entries.empty());
  bench.loader.put("a", 20);
  CHECK(bench.call("a")->answers == 1);
  CHECK(bench.ready("a"));
}

TEST_CASE("A loader that throws, or returns nothing, is an internal error") {
  Bench bench(small(100));
  FakeArtifact artifact;
  SECTION("throws") {
    artifact.throws = true;
  }
  SECTION("returns nothing") {
    artifact.null_model = true;
  }
  SECTION("returns a model that cannot say what it holds") {
    artifact.footprint_throws = true;
  }
  artifact.estimate.private_bytes = 10;
  bench.loader.put("a", artifact);
  const auto who = bench.acquire("a");
  bench.settle();
  CHECK(who->error == ErrorCode::internal);
  CHECK(bench.cache().used().total() == 0);
  CHECK(bench.loader.testimony().live == 0);
  CHECK(bench.loader.testimony().died_elsewhere == 0);
}

TEST_CASE("A broken artifact is remembered for ten seconds; an explicit load tries it all the same (R12)") {
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.estimate_error = loader::Error{ErrorCode::model_broken, "not a model"};
  bench.loader.put("a", artifact);
  bench.acquire("a");
  bench.settle();
  for (int i = 0; i < 1'000; ++i) {
    const auto who = bench.acquire("a");
    REQUIRE(who->error == ErrorCode::model_broken);
    REQUIRE(who->message == "not a model");
  }
  CHECK(bench.loader.testimony().estimates == 1);

  SECTION("until the ten seconds are over") {
    bench.advance(10s);
    bench.acquire("a");
    bench.settle();
    CHECK(bench.loader.testimony().estimates == 2);
  }
  SECTION("unless the file changes") {
    bench.acquire(spec_of("a", 1));
    bench.settle();
    CHECK(bench.loader.testimony().estimates == 2);
  }
  SECTION("unless it is loaded explicitly") {
    bench.loader.put("a", 10);
    const auto who = bench.load("a");
    bench.settle();
    CHECK(who->done);
    CHECK(bench.acquire("a")->runs());
  }
}

TEST_CASE("Errors that say nothing of the artifact are not remembered (R12)") {
  const auto code = GENERATE(ErrorCode::internal, ErrorCode::settling, ErrorCode::cannot_fit, ErrorCode::load_timeout);
  Bench bench(small(100));
  FakeArtifact artifact;
  artifact.load_error = loader::Error{code, "something else"};
  bench.loader.put("a", artifact);
  bench.acquire("a");
  bench.settle();
  bench.acquire("a");
  bench.settle();
  CHECK(bench.loader.testimony().loads == 2);
}
