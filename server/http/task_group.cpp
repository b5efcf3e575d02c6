// The coroutines that a listener has started and not yet seen end.
// Knows nothing of HTTP or sockets.
#include "server/http/task_group.hpp"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace mme::server {
namespace {

/// Touched on its executor only: cancellation signals are not thread-safe.
struct Task {
  asio::any_io_executor executor;
  TaskGroup::Notify notify;
  asio::cancellation_signal signal;
  bool ended = false;
};

void tell_one(const std::shared_ptr<Task>& task, Stage stage) {
  asio::post(task->executor, [task, stage] {
    if (!task->ended && task->notify) task->notify(stage);
  });
}

}  // namespace

struct TaskGroup::State {
  mutable std::mutex mutex;
  std::vector<std::shared_ptr<Task>> tasks;
  std::optional<Stage> stage;

  void add(const std::shared_ptr<Task>& task) {
    const std::lock_guard lock(mutex);
    tasks.push_back(task);
    if (stage) tell_one(task, *stage);
  }
  void remove(const std::shared_ptr<Task>& task) {
    task->ended = true;
    const std::lock_guard lock(mutex);
    const auto found = std::find(tasks.begin(), tasks.end(), task);
    if (found == tasks.end()) return;
    std::swap(*found, tasks.back());
    tasks.pop_back();
  }
  std::vector<std::shared_ptr<Task>> all() const {
    const std::lock_guard lock(mutex);
    return tasks;
  }
};

TaskGroup::TaskGroup() : state_(std::make_shared<State>()) {}

void TaskGroup::spawn(asio::any_io_executor executor, asio::awaitable<void> task, Notify notify) {
  auto entry = std::make_shared<Task>();
  entry->executor = executor;
  entry->notify = std::move(notify);
  state_->add(entry);
  auto done = [entry, state = state_](const std::exception_ptr&) { state->remove(entry); };
  // co_spawn installs a handler in the slot, so it must happen where the signal is used: on the task's executor.
  asio::post(executor, [entry, task = std::move(task), done = std::move(done)]() mutable {
    asio::co_spawn(entry->executor, std::move(task),
                   asio::bind_cancellation_slot(entry->signal.slot(), std::move(done)));
  });
}

void TaskGroup::tell(Stage stage) {
  const std::lock_guard lock(state_->mutex);
  state_->stage = stage;
  for (const auto& task : state_->tasks) tell_one(task, stage);
}

void TaskGroup::cut() {
  for (const auto& task : state_->all()) {
    asio::post(task->executor, [task] { task->signal.emit(asio::cancellation_type::terminal); });
  }
}

std::size_t TaskGroup::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->tasks.size();
}

// Looks again each few milliseconds instead of being woken: it runs once in the life of a process, and a wake-up
// across strands would be more to get wrong than it saves.
asio::awaitable<bool> TaskGroup::join(loader::Deadline until) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (size() != 0) {
    if (loader::Clock::now() >= until) co_return false;
    timer.expires_after(std::chrono::milliseconds(5));
    co_await timer.async_wait(asio::use_awaitable);
  }
  co_return true;
}

}  // namespace mme::server
