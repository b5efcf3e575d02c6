#include "server/inference/worker_pool.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace mme::server {

struct WorkerPool::Impl {
  explicit Impl(WorkerPoolOptions given) : options(std::move(given)) {}

  void run() {
    pthread_setname_np(pthread_self(), options.name.substr(0, 15).c_str());
    // On Linux a nice value belongs to the thread. Refusal only costs us the politeness.
    // A new thread starts with its maker's value, which is not 0 when the program itself was started politely.
    if (options.nice != 0) {
      const auto self = static_cast<id_t>(syscall(SYS_gettid));
      (void)setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + options.nice);
    }
    if (options.enter_thread) options.enter_thread();
    while (auto task = next()) task();
  }

  /// Nothing when this thread is to end; it is then booked as ended.
  std::function<void()> next() {
    std::unique_lock lock(mutex);
    wake.wait(lock, [this] { return stopping || leaving > 0 || !tasks.empty(); });
    if (tasks.empty() || (leaving > 0 && !stopping)) {
      if (!stopping) --leaving;
      ended.push_back(pthread_self());
      --alive;
      // A wake-up that this thread took may have been meant for a task.
      if (!tasks.empty()) wake.notify_one();
      all_ended.notify_all();
      return {};
    }
    auto task = std::move(tasks.front());
    tasks.pop_front();
    return task;
  }

  static void* entry(void* self) {
    static_cast<Impl*>(self)->run();
    return nullptr;
  }

  /// With the mutex held. False when the system gives no thread.
  bool start_thread() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, options.stack_bytes);
    pthread_t thread{};
    const int error = pthread_create(&thread, &attributes, &Impl::entry, this);
    pthread_attr_destroy(&attributes);
    alive += error == 0 ? 1 : 0;
    return error == 0;
  }

  /// Joins the threads that have ended, or are about to. Without the mutex.
  void join_ended() {
    std::vector<pthread_t> done;
    {
      const std::lock_guard lock(mutex);
      done.swap(ended);
    }
    for (const pthread_t thread : done) pthread_join(thread, nullptr);
  }

  void begin_stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
  }

  void stop() {
    begin_stop();
    {
      std::unique_lock lock(mutex);
      all_ended.wait(lock, [this] { return alive == 0; });
    }
    join_ended();
  }

  const WorkerPoolOptions options;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable all_ended;
  std::deque<std::function<void()>> tasks;
  bool stopping = false;
  std::size_t alive = 0;         ///< threads that run tasks or wait for some
  std::size_t leaving = 0;       ///< threads that remove_thread() asked to end and that have not yet
  std::vector<pthread_t> ended;  ///< to be joined
};

WorkerPool::WorkerPool(WorkerPoolOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  for (std::size_t i = 0; i < impl_->options.threads; ++i) {
    if (!add_thread()) {
      impl_->stop();
      throw std::runtime_error("cannot start a thread of pool " + impl_->options.name);
    }
  }
}

WorkerPool::~WorkerPool() {
  impl_->stop();
}

void WorkerPool::post(std::function<void()> task) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->tasks.push_back(std::move(task));
  }
  impl_->wake.notify_one();
}

std::function<void(std::function<void()>)> WorkerPool::executor() {
  return [this](std::function<void()> task) { post(std::move(task)); };
}

bool WorkerPool::add_thread() {
  impl_->join_ended();
  const std::lock_guard lock(impl_->mutex);
  if (impl_->stopping) return false;
  if (impl_->leaving > 0) {  // one that was to go may stay
    --impl_->leaving;
    return true;
  }
  return impl_->start_thread();
}

void WorkerPool::remove_thread() {
  impl_->join_ended();
  {
    const std::lock_guard lock(impl_->mutex);
    ++impl_->leaving;
  }
  impl_->wake.notify_one();
}

bool WorkerPool::finish(std::chrono::milliseconds patience) {
  impl_->begin_stop();
  {
    std::unique_lock lock(impl_->mutex);
    if (!impl_->all_ended.wait_for(lock, patience, [this] { return impl_->alive == 0; })) return false;
  }
  impl_->join_ended();
  return true;
}

std::size_t WorkerPool::threads() const noexcept {
  const std::lock_guard lock(impl_->mutex);
  return impl_->alive - std::min(impl_->alive, impl_->leaving);
}

}  // namespace mme::server
