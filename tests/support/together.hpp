// Clients released at one instant, and loops bounded by time.
#pragma once

#include <atomic>
#include <barrier>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace mme::test {

/// Runs `work(i)` on `count` threads released together and waits for all. The first exception is thrown on.
template <class Work>
void together(int count, Work work) {
  std::barrier start(count);
  std::vector<std::thread> threads;
  std::exception_ptr failure;
  std::mutex mutex;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace mme::test
