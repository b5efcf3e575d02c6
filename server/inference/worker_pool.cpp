#include "server/inference/worker_pool.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace mme::server {

struct WorkerPool::Impl {
  explicit Impl(WorkerPoolOptions given) : options(std::move(given)) {}

  void run() {
    pthread_setname_np(pthread_self(), options.name.substr(0, 15).c_str());
    // On Linux a nice value belongs to the thread. Refusal only costs us the politeness.
    if (options.nice != 0) (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), options.nice);
    if (options.enter_thread) options.enter_thread();
    while (auto task = next()) task();
  }

  std::function<void()> next() {
    std::unique_lock lock(mutex);
    wake.wait(lock, [this] { return stopping || !tasks.empty(); });
    if (tasks.empty()) return {};
    auto task = std::move(tasks.front());
    tasks.pop_front();
    return task;
  }

  static void* entry(void* self) {
    static_cast<Impl*>(self)->run();
    return nullptr;
  }

  void start_thread() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, options.stack_bytes);
    pthread_t thread{};
    const int error = pthread_create(&thread, &attributes, &Impl::entry, this);
    pthread_attr_destroy(&attributes);
    if (error != 0) throw std::runtime_error("cannot start a thread of pool " + options.name);
    threads.push_back(thread);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
    threads.clear();
  }

  const WorkerPoolOptions options;
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> tasks;
  bool stopping = false;
  std::vector<pthread_t> threads;
};

WorkerPool::WorkerPool(WorkerPoolOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  try {
    for (std::size_t i = 0; i < impl_->options.threads; ++i) impl_->start_thread();
  } catch (...) {
    impl_->stop();
    throw;
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

std::size_t WorkerPool::threads() const noexcept {
  return impl_->options.threads;
}

}  // namespace mme::server
