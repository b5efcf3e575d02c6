// Watches from outside that the server stays within its budget.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/server_process.hpp"

namespace mme::test {

/// Reads the charged sum again and again until told to stop; keeps the largest.
class BudgetWatch {
 public:
  explicit BudgetWatch(const ServerProcess& server) : server_(server), thread_([this] { watch(); }) {}
  ~BudgetWatch() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] double largest() const { return largest_; }
  [[nodiscard]] int samples() const { return samples_; }

 private:
  void watch() {
    while (!stop_) {
      largest_ = std::max(largest_, server_.metric_sum("mme_memory_bytes"));
      ++samples_;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  const ServerProcess& server_;
  std::atomic<bool> stop_{false};
  double largest_ = 0;
  int samples_ = 0;
  std::thread thread_;
};

}  // namespace mme::test
