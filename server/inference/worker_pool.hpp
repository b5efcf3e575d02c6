// Threads of our own for blocking work: compute, loading, destroying models. Named, sized and with stacks we choose.
// Not an Asio pool: those have no say over the stack, and a crafted model needs a deep one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace mme::server {

struct WorkerPoolOptions {
  std::string name;  ///< shown by ps and perf; at most 15 characters
  std::size_t threads = 1;
  std::size_t stack_bytes = 64U << 20;
  int nice = 0;                        ///< added to the threads' nice value
  std::function<void()> enter_thread;  ///< run once by each thread before its first task
};

/// First in, first out. post() from any thread, also from a task. Tasks must not throw.
class WorkerPool {
 public:
  explicit WorkerPool(WorkerPoolOptions options);
  /// Runs what is queued, then joins.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void post(std::function<void()> task);
  /// As a value for code that knows no pools. The pool must outlive it.
  [[nodiscard]] std::function<void(std::function<void()>)> executor();

  [[nodiscard]] std::size_t threads() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mme::server
