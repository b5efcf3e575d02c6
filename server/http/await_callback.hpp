// Waits, in a coroutine, for something that ends by calling back from whichever thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <utility>

namespace mme::server {

namespace asio = boost::asio;

/// `start` gets a copyable callback that takes a Value, to be called once from any thread. The coroutine goes on upon
/// its own executor. Cancelling it changes nothing: what `start` was given must not go away before it has called back.
template <class Value, class Start>
asio::awaitable<Value> await_callback(Start start) {
  auto initiate = [start = std::move(start)]<class Handler>(Handler handler) mutable {
    struct State {
      Handler handler;
      asio::any_io_executor executor;  // of the caller; taken along, for callbacks may outlive its context
    };
    const asio::any_io_executor own = asio::get_associated_executor(handler);
    auto state = std::make_shared<State>(State{std::move(handler), own});
    start([state](Value value) {
      const auto executor = std::exchange(state->executor, {});
      asio::post(executor, [state, value = std::move(value)]() mutable {
        auto ready = std::move(state->handler);
        std::move(ready)(std::move(value));
      });
    });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(Value)>(std::move(initiate),
                                                                                       asio::use_awaitable);
}

}  // namespace mme::server
