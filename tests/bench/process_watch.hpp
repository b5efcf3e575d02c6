// Keeps the largest memory that a process took while watched, and ends the process when that passes a cap.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "tests/e2e/memory_watch.hpp"

namespace mme::bench {

/// A look walks the page tables of the process, so latencies are measured without one.
class ProcessWatch {
 public:
  explicit ProcessWatch(pid_t pid, std::size_t cap = SIZE_MAX) : pid_(pid), cap_(cap), thread_([this] { watch(); }) {}
  ~ProcessWatch() { stop(); }
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  /// The peak, in bytes of PSS.
  std::size_t stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return peak_;
  }

 private:
  void watch() {
    do {
      const std::size_t now = test::proportional_bytes(pid_);
      peak_ = std::max(peak_.load(), now);
      if (now > cap_) {
        kill(pid_, SIGKILL);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    } while (!stop_);
  }

  pid_t pid_;
  std::size_t cap_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> peak_{0};
  std::thread thread_;
};

}  // namespace mme::bench
