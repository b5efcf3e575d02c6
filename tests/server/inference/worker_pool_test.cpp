// The pool runs what it is given, on its own threads, with the stacks it promises.
#include "server/inference/worker_pool.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <set>
#include <thread>

#include "tests/support/catch.hpp"

using namespace mme::server;

TEST_CASE("every task runs once, also those posted by tasks", "[worker_pool]") {
  std::atomic<int> ran{0};
  {
    WorkerPool pool({.name = "test", .threads = 4});
    for (int i = 0; i < 100; ++i) {
      pool.post([&] {
        ++ran;
        pool.post([&] { ++ran; });
      });
    }
  }
  CHECK(ran == 200);
}

TEST_CASE("one thread keeps the order", "[worker_pool]") {
  std::vector<int> order;
  {
    WorkerPool pool({.name = "test", .threads = 1});
    for (int i = 0; i < 10; ++i) pool.post([&order, i] { order.push_back(i); });
  }
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("each thread enters once, under its name, nice value and stack size", "[worker_pool]") {
  std::atomic<int> entered{0};
  std::promise<std::size_t> stack;
  std::promise<int> nice;
  std::promise<std::string> name;
  {
    WorkerPool pool(
        {.name = "compute", .threads = 1, .stack_bytes = 32U << 20, .nice = 5, .enter_thread = [&] { ++entered; }});
    pool.post([&] {
      pthread_attr_t attributes;
      std::size_t bytes = 0;
      pthread_getattr_np(pthread_self(), &attributes);
      pthread_attr_getstacksize(&attributes, &bytes);
      pthread_attr_destroy(&attributes);
      stack.set_value(bytes);
      nice.set_value(getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))));
      char text[16] = {};
      pthread_getname_np(pthread_self(), text, sizeof text);
      name.set_value(text);
    });
  }
  CHECK(entered == 1);
  CHECK(stack.get_future().get() >= (32U << 20));
  CHECK(nice.get_future().get() == getpriority(PRIO_PROCESS, 0) + 5);
  CHECK(name.get_future().get() == "compute");
}

TEST_CASE("a stuck thread can be replaced, and when it comes back the pool is as large as before", "[worker_pool]") {
  WorkerPool pool({.name = "test", .threads = 1});
  std::promise<void> release;
  pool.post([&] { release.get_future().wait(); });
  REQUIRE(pool.add_thread());
  CHECK(pool.threads() == 2);
  std::promise<void> ran;
  pool.post([&] { ran.set_value(); });
  ran.get_future().wait();
  release.set_value();
  pool.remove_thread();
  CHECK(pool.threads() == 1);
  std::atomic<int> more{0};
  for (int i = 0; i < 100; ++i) pool.post([&] { ++more; });
  CHECK(pool.finish(std::chrono::seconds(60)));
  CHECK(more == 100);
  CHECK_FALSE(pool.add_thread());
}

TEST_CASE("threads come and go while tasks are posted, and every task runs", "[worker_pool]") {
  std::atomic<int> ran{0};
  {
    WorkerPool pool({.name = "test", .threads = 2, .stack_bytes = 1U << 20});
    std::thread changer([&] {
      for (int i = 0; i < 50; ++i) {
        CHECK(pool.add_thread());
        pool.remove_thread();
      }
    });
    for (int i = 0; i < 2000; ++i) pool.post([&] { ++ran; });
    changer.join();
    CHECK(pool.threads() == 2);
  }
  CHECK(ran == 2000);
}

TEST_CASE("finish does not wait for a stuck task beyond its patience", "[worker_pool]") {
  std::promise<void> release;
  WorkerPool pool({.name = "test", .threads = 2});
  std::promise<void> began;
  pool.post([&] {
    began.set_value();
    release.get_future().wait();
  });
  began.get_future().wait();
  CHECK_FALSE(pool.finish(std::chrono::milliseconds(20)));
  release.set_value();
  CHECK(pool.finish(std::chrono::seconds(60)));
}
