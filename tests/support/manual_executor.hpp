// An executor whose tasks run when the test says so, and a clock that moves when the test says so.
// Single-threaded: for tests in which every interleaving is chosen.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "loader/model.hpp"

namespace mme::test {

/// The pool whose task this thread is running; empty outside. Fakes testify with it.
inline thread_local std::string current_pool;

class ManualExecutor {
 public:
  explicit ManualExecutor(std::string name) : name_(std::move(name)) {}

  /// What the cache gets.
  [[nodiscard]] std::function<void(std::function<void()>)> executor() {
    return [this](std::function<void()> task) {
      if (inline_) {
        run(std::move(task));
      } else {
        tasks_.push_back(std::move(task));
      }
    };
  }
  [[nodiscard]] std::size_t size() const noexcept { return tasks_.size(); }
  /// Runs the task at `index` in the queue, so that tests can reorder what real threads might.
  void run_at(std::size_t index) {
    auto task = std::move(tasks_[index]);
    tasks_.erase(tasks_.begin() + static_cast<std::ptrdiff_t>(index));
    run(std::move(task));
  }
  bool run_one() {
    if (tasks_.empty()) {
      return false;
    }
    run_at(0);
    return true;
  }
  /// Runs tasks until none is left, those that tasks add as well.
  void run_all() {
    while (run_one()) {
    }
  }
  /// From now on tasks run where they are given, as if their thread were infinitely fast.
  void set_inline(bool on) noexcept { inline_ = on; }

 private:
  void run(std::function<void()> task) {
    const std::string before = std::exchange(current_pool, name_);
    task();
    task = nullptr;
    current_pool = before;
  }
  std::string name_;
  std::deque<std::function<void()>> tasks_;
  bool inline_ = false;
};

class ManualClock {
 public:
  [[nodiscard]] loader::TimePoint now() const noexcept { return now_; }
  void advance(std::chrono::nanoseconds by) noexcept { now_ += by; }

 private:
  loader::TimePoint now_{std::chrono::hours(1)};
};

}  // namespace mme::test
