#include "server/inference/pending_call.hpp"

#include <atomic>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <utility>

namespace mme::server {
namespace {

using loader::Error;
using loader::ErrorCode;

double milliseconds_since(loader::TimePoint start) {
  return std::chrono::duration<double, std::milli>(loader::Clock::now() - start).count();
}

CallOutcome failed(Error error) {
  CallOutcome outcome{std::move(error), {}, 0, false, false, 0};
  return outcome;
}

/// Three parties may end a call: the compute thread (done), the timer (deadline) and the caller (cancelled). The first
/// to set `ended_` wins and is the only one to touch `handler_`. The timer is touched on the caller's executor only.
template <class Completion>
class PendingCall : public std::enable_shared_from_this<PendingCall<Completion>> {
 public:
  PendingCall(cache::ModelCache& cache, WorkerPool& compute, Call call, asio::any_io_executor executor,
              Completion handler)
      : cache_(cache),
        compute_(compute),
        call_(std::move(call)),
        executor_(std::move(executor)),
        handler_(std::move(handler)) {}

  void start() {
    auto self = this->shared_from_this();
    if (auto slot = asio::get_associated_cancellation_slot(handler_); slot.is_connected()) {
      slot.assign([self](asio::cancellation_type type) {
        if (type != asio::cancellation_type::none) self->abandon("the caller went away");
      });
    }
    if (call_.request.deadline != loader::Deadline::max()) {
      timer_.emplace(executor_, call_.request.deadline);
      timer_->async_wait([self](boost::system::error_code error) {
        if (!error) self->abandon("the request's deadline passed");
      });
    }
    ticket_ = cache_.acquire(call_.spec, call_.request,
                             [self](loader::Result<cache::Lease> lease) { self->on_lease(std::move(lease)); });
  }

 private:
  void on_lease(loader::Result<cache::Lease> lease) {
    if (!lease) return end(failed(lease.error()));
    lease_ = std::move(*lease);
    compute_.post([self = this->shared_from_this()] { self->run(); });
  }

  void run() {
    cache::Lease lease = std::move(lease_);
    CallOutcome outcome{loader::TensorMap{}, lease.timing(), 0, true, lease.model().stateless(), 0};
    const auto began = loader::Clock::now();
    if (ended_.load(std::memory_order_acquire)) return;  // nobody waits for it any more
    if (began >= call_.request.deadline) {
      outcome.outputs = loader::fail(ErrorCode::deadline_exceeded, "the request's deadline passed before it could run");
      return end(std::move(outcome));
    }
    loader::CallContext context = lease.context(call_.request.deadline);
    outcome.outputs = lease.model().infer(call_.inputs, context);
    outcome.run_ms = milliseconds_since(began);
    outcome.peak_bytes = context.peak_bytes;
    lease.finish(context, !outcome.outputs && outcome.outputs.error().code == ErrorCode::activations);
    context = {};
    lease = {};  // the slot is free before the reply is built
    end(std::move(outcome));
  }

  /// On the caller's executor.
  void abandon(const char* why) {
    if (ended_.load(std::memory_order_acquire)) return;
    cache_.leave(ticket_);
    end(failed(loader::fail(ErrorCode::deadline_exceeded, why)));
  }

  void end(CallOutcome outcome) {
    if (ended_.exchange(true, std::memory_order_acq_rel)) return;
    // Taken along: the cache's threads may be the last to hold this, after the caller's context is gone.
    const auto executor = std::exchange(executor_, {});
    // Always posted: ending from inside start() must not resume the coroutine before it is suspended.
    asio::post(executor, [self = this->shared_from_this(), outcome = std::move(outcome)]() mutable {
      self->timer_.reset();
      auto handler = std::move(self->handler_);
      if (auto slot = asio::get_associated_cancellation_slot(handler); slot.is_connected()) slot.clear();
      std::move(handler)(std::move(outcome));
    });
  }

  cache::ModelCache& cache_;
  WorkerPool& compute_;
  Call call_;
  asio::any_io_executor executor_;
  std::optional<asio::steady_timer> timer_;  ///< gone once the call has ended: a running call may outlive it by long
  Completion handler_;
  cache::Lease lease_;
  cache::Ticket ticket_ = 0;
  std::atomic<bool> ended_{false};
};

struct Initiate {
  cache::ModelCache& cache;
  WorkerPool& compute;
  Call call;

  template <class Completion>
  void operator()(Completion&& handler) {
    using Decayed = std::decay_t<Completion>;
    asio::any_io_executor executor = asio::get_associated_executor(handler);
    std::make_shared<PendingCall<Decayed>>(cache, compute, std::move(call), std::move(executor),
                                           std::forward<Completion>(handler))
        ->start();
  }
};

}  // namespace

asio::awaitable<CallOutcome> run_call(cache::ModelCache& cache, WorkerPool& compute, Call call) {
  // Named, because g++ 12 copies a braced temporary inside a co_await bit by bit, and strings do not survive that.
  Initiate initiate{cache, compute, std::move(call)};
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(CallOutcome)>(std::move(initiate),
                                                                                             asio::use_awaitable);
}

}  // namespace mme::server
