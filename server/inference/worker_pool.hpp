// Threads of our own for blocking work: compute, loading, destroying models. Named, sized and with stacks we choose.
// Not an Asio pool: those have no say over the stack, and a crafted model needs a deep one.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace mme::server {

struct WorkerPoolOptions {
  std::string name;  ///< shown by ps and perf; at most 15 characters
  std::size_t threads = 1;
  std::size_t stack_bytes = 64U << 20;
  int nice = 0;                          ///< added to the threads' nice value
  std::function<void()> enter_thread{};  ///< run once by each thread before its first task
};

/// First in, first out. All members but the destructor from any thread, also from a task. Tasks must not throw.
class WorkerPool {
 public:
  explicit WorkerPool(WorkerPoolOptions options);
  /// Runs what is queued, then joins, however long that takes.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void post(std::function<void()> task);
  /// As a value for code that knows no pools. The pool must outlive it.
  [[nodiscard]] std::function<void(std::function<void()>)> executor();

  /// One more thread, in the place of one that is stuck in its task. False when the system gives none, or when the
  /// pool is ending.
  bool add_thread();
  /// One thread less: the first that has nothing to do leaves. For when a stuck task has ended after all.
  void remove_thread();

  /// No more tasks: runs what is queued and waits until every thread has ended, at most so long. False: some are still
  /// in their tasks, and the destructor would wait for them. Not from a task.
  [[nodiscard]] bool finish(std::chrono::milliseconds patience);

  /// How many there are, those that are stuck too.
  [[nodiscard]] std::size_t threads() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mme::server
