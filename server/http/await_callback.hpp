// Waits, in a coroutine, for something that ends by calling back from whichever thread.
#pragma once

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
  auto initiate = [start = std::move(start)](auto handler) mutable {
    auto executor = asio::get_associated_executor(handler);
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    start([shared, executor](Value value) {
      asio::post(executor, [shared, value = std::move(value)]() mutable { std::move (*shared)(std::move(value)); });
    });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(Value)>(std::move(initiate),
                                                                                       asio::use_awaitable);
}

}  // namespace mme::server
