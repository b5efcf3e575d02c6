// A time limit on the socket operation that a session is waiting for.
// Cancels the operation and closes nothing, so that a reply can still be sent; says afterwards that it did.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>

#include "loader/model.hpp"

namespace mme::server {

/// One per socket, used on the socket's strand only. The socket must outlive it.
class SocketDeadline {
 public:
  explicit SocketDeadline(boost::asio::ip::tcp::socket& socket);
  ~SocketDeadline();
  SocketDeadline(const SocketDeadline&) = delete;
  SocketDeadline& operator=(const SocketDeadline&) = delete;

  /// Cancels the socket's operations at `when`, instead of any time set before; forgets earlier expiry.
  void arm(loader::TimePoint when);
  void arm(std::chrono::nanoseconds in) { arm(loader::Clock::now() + in); }
  /// No limit until the next arm(). expired() keeps its answer.
  void disarm();
  [[nodiscard]] bool expired() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mme::server
