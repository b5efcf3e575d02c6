// The coroutines that a listener has started and not yet seen end, so that shutdown can wait for them or cut them.
// Knows nothing of HTTP or sockets: what a stage means is each task's business.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <memory>

#include "loader/model.hpp"

namespace mme::server {

namespace asio = boost::asio;

/// How far a shutdown has come. Each stage follows the one before it; a task may hear of them in any state.
enum class Stage {
  drain,    ///< end what runs, start nothing new
  abandon,  ///< give up what runs, tell the client
};

/// All members may be called from any thread.
class TaskGroup {
 public:
  /// Called on the task's executor, never after the task has ended.
  using Notify = std::function<void(Stage)>;

  TaskGroup();

  /// Starts `task` on `executor`, which must be a strand. An exception that leaves the task ends that task only.
  /// A task spawned after tell() hears of the stage at once.
  void spawn(asio::any_io_executor executor, asio::awaitable<void> task, Notify notify);

  void tell(Stage stage);
  /// Cancels every task: what it waits for fails, and so does each later wait.
  void cut();

  [[nodiscard]] std::size_t size() const;
  /// Done when no task is left (true) or at `until` (false).
  asio::awaitable<bool> join(loader::Deadline until);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mme::server
