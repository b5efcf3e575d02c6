// A gate where clients wait for each other, so that all of them are released at one instant.
// Single use; one executor that runs one handler at a time.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

namespace mme::server {

class StartGate {
 public:
  StartGate(const boost::asio::any_io_executor& executor, unsigned parties)
      : timer_(executor, std::chrono::steady_clock::time_point::max()), missing_(parties) {}

  /// Returns once all parties have arrived. At most as many calls as there are parties.
  boost::asio::awaitable<void> arrive_and_wait() {
    if (--missing_ != 0) {
      co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
      co_return;
    }
    released_ = std::chrono::steady_clock::now();
    timer_.cancel();
  }

  /// When the last party arrived; the epoch before.
  [[nodiscard]] std::chrono::steady_clock::time_point released() const { return released_; }

 private:
  boost::asio::steady_timer timer_;
  unsigned missing_;
  std::chrono::steady_clock::time_point released_;
};

}  // namespace mme::server
