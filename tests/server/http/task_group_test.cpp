// The group of running tasks: who hears of a shutdown, who is cut, and when the group is empty.
#include "server/http/task_group.hpp"

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;
using namespace std::chrono_literals;

namespace {

asio::awaitable<void> sleep_for(std::chrono::milliseconds time, std::atomic<int>* ended) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(time);
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  ++*ended;
}

asio::awaitable<void> fails() {
  throw std::runtime_error("a task's own trouble");
  co_return;
}

bool join(asio::io_context& io, TaskGroup& group, std::chrono::milliseconds limit) {
  auto joined = asio::co_spawn(io, group.join(loader::Clock::now() + limit), asio::use_future);
  io.restart();
  io.run();
  return joined.get();
}

}  // namespace

TEST_CASE("join waits for every task, also for those that throw") {
  asio::io_context io;
  TaskGroup group;
  std::atomic<int> ended{0};
  group.spawn(asio::make_strand(io), sleep_for(20ms, &ended), {});
  group.spawn(asio::make_strand(io), sleep_for(1ms, &ended), {});
  group.spawn(asio::make_strand(io), fails(), {});
  CHECK(group.size() == 3);
  CHECK(join(io, group, 5s));
  CHECK(ended == 2);
  CHECK(group.size() == 0);
}

TEST_CASE("join gives up at its time, and cut ends what is left") {
  asio::io_context io;
  TaskGroup group;
  std::atomic<int> ended{0};
  group.spawn(asio::make_strand(io), sleep_for(60'000ms, &ended), {});
  auto joined = asio::co_spawn(io, group.join(loader::Clock::now() + 10ms), asio::use_future);
  while (joined.wait_for(0s) != std::future_status::ready) io.run_one_for(20ms);
  CHECK_FALSE(joined.get());
  CHECK(ended == 0);
  group.cut();
  CHECK(join(io, group, 5s));
  CHECK(ended == 1);
}

TEST_CASE("every task hears of each stage, those that come later too, and none after its end") {
  asio::io_context io;
  TaskGroup group;
  std::atomic<int> ended{0};
  std::vector<Stage> heard;
  const auto notify = [&](Stage stage) { heard.push_back(stage); };
  group.spawn(asio::make_strand(io), sleep_for(30ms, &ended), notify);
  group.tell(Stage::drain);
  group.spawn(asio::make_strand(io), sleep_for(30ms, &ended), notify);
  io.run_for(10ms);
  CHECK(heard == std::vector{Stage::drain, Stage::drain});
  CHECK(join(io, group, 5s));
  group.tell(Stage::abandon);
  io.restart();
  io.run();
  CHECK(heard.size() == 2);
}

TEST_CASE("tasks come and go on several threads while the group is told and cut") {
  asio::io_context io;
  TaskGroup group;
  std::atomic<int> ended{0};
  std::atomic<int> heard{0};
  for (int i = 0; i < 200; ++i) {
    group.spawn(asio::make_strand(io), sleep_for(std::chrono::milliseconds(i % 7), &ended), [&](Stage) { ++heard; });
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back([&] { io.run(); });
  group.tell(Stage::drain);
  group.cut();
  for (auto& thread : threads) thread.join();
  CHECK(ended == 200);
  CHECK(group.size() == 0);
}
