// One call on its way: it runs once or not at all, ends by its deadline, and leaves its seat when nobody waits.
#include "server/inference/pending_call.hpp"

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>

#include "tests/server/inference/call_fixture.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::test;
using namespace std::chrono_literals;
using loader::ErrorCode;

namespace {

loader::Deadline in(std::chrono::milliseconds time) {
  return loader::Clock::now() + time;
}

/// A gate that calls wait at until the test opens it.
struct Gate {
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
  std::atomic<int> entered{0};
  std::atomic<int> left{0};

  CallBody body() {
    return [this](loader::CallContext&) -> loader::Result<loader::TensorMap> {
      ++entered;
      opened.wait();
      ++left;
      return loader::TensorMap{};
    };
  }
  void wait_for(std::atomic<int>& count, int value) const {
    while (count < value) std::this_thread::sleep_for(1ms);
  }
};

}  // namespace

TEST_CASE("a call answers and tells that its model was loaded for it", "[pending_call]") {
  CallFixture fixture([](loader::CallContext&) { return loader::TensorMap{}; }, 1);
  const auto first = fixture.call("m").get();
  CHECK(first.outputs.has_value());
  CHECK(first.leased);
  CHECK(first.timing.result == cache::CacheResult::miss);
  CHECK(fixture.call("m").get().timing.result == cache::CacheResult::hit);
}

TEST_CASE("a call that waits beyond its deadline is answered then and never runs", "[pending_call]") {
  Gate gate;
  CallFixture fixture(gate.body(), 1);
  auto running = fixture.call("m");
  gate.wait_for(gate.entered, 1);
  const auto late = fixture.call("m", in(50ms)).get();
  REQUIRE(late.outputs.has_error());
  CHECK(late.outputs.error().code == ErrorCode::deadline_exceeded);
  gate.open.set_value();
  CHECK(running.get().outputs.has_value());
  CHECK(fixture.call("m").get().outputs.has_value());
  CHECK(gate.entered == 2);
}

TEST_CASE("a call that runs beyond its deadline is answered then and its result is thrown away", "[pending_call]") {
  Gate gate;
  CallFixture fixture(gate.body(), 1);
  REQUIRE(fixture.cache.used().total() == 0);
  const auto late = fixture.call("m", in(100ms)).get();
  REQUIRE(late.outputs.has_error());
  CHECK(late.outputs.error().code == ErrorCode::deadline_exceeded);
  CHECK(gate.left == 0);
  gate.open.set_value();
  CHECK(fixture.call("m").get().outputs.has_value());
}

TEST_CASE("a cancelled call leaves the queue", "[pending_call]") {
  Gate gate;
  CallFixture fixture(gate.body(), 1);
  auto running = fixture.call("m");
  gate.wait_for(gate.entered, 1);

  server::Call call;
  call.spec.name = call.spec.artifact.path = "m";
  boost::asio::cancellation_signal cancel;
  std::promise<server::CallOutcome> result;
  auto strand = boost::asio::make_strand(fixture.io);
  boost::asio::co_spawn(
      strand, server::run_call(fixture.cache, fixture.compute, std::move(call)),
      boost::asio::bind_cancellation_slot(cancel.slot(), [&](const std::exception_ptr&, server::CallOutcome outcome) {
        result.set_value(std::move(outcome));
      }));
  while (fixture.cache.status().entries.at(0).waiting == 0) std::this_thread::sleep_for(1ms);
  boost::asio::post(strand, [&] { cancel.emit(boost::asio::cancellation_type::terminal); });
  CHECK(result.get_future().get().outputs.has_error());
  CHECK(fixture.cache.status().entries.at(0).waiting == 0);
  gate.open.set_value();
  running.get();
  CHECK(gate.entered == 1);
}

TEST_CASE("many calls of many models on few threads are each answered once", "[pending_call]") {
  std::atomic<int> ran{0};
  CallFixture fixture(
      [&](loader::CallContext&) -> loader::Result<loader::TensorMap> {
        if (++ran % 7 == 0) return loader::fail(ErrorCode::inference_failed, "every seventh");
        return loader::TensorMap{};
      },
      3);
  std::vector<std::future<server::CallOutcome>> calls;
  for (int i = 0; i < 600; ++i) {
    // Some have no time at all: they must be answered too, whether or not they got to run.
    calls.push_back(fixture.call("m" + std::to_string(i % 5), i % 11 == 0 ? in(0ms) : in(20s)));
  }
  int answered = 0;
  int expired = 0;
  for (auto& call : calls) {
    const auto outcome = call.get();
    const bool good = outcome.outputs.has_value() || outcome.outputs.error().code == ErrorCode::inference_failed;
    answered += good ? 1 : 0;
    expired += !good && outcome.outputs.error().code == ErrorCode::deadline_exceeded ? 1 : 0;
  }
  CHECK(answered + expired == 600);
  CHECK(answered >= 600 - 55);
  CHECK(fixture.cache.used().activations == 0);
}
