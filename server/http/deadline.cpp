// A time limit on the socket operation that a session is waiting for.
// Cancels the operation and closes nothing.
#include "server/http/deadline.hpp"

#include <cstdint>

namespace mme::server {

/// Outlives the deadline while a timer handler is on its way. `generation` tells a handler whose time was changed
/// after it was queued that it is stale: without it, it would cancel the operation after the one it was meant for.
struct SocketDeadline::State {
  explicit State(boost::asio::ip::tcp::socket& s) : socket(s), timer(s.get_executor()) {}
  boost::asio::ip::tcp::socket& socket;
  boost::asio::steady_timer timer;
  std::uint64_t generation = 0;
  bool expired = false;
};

SocketDeadline::SocketDeadline(boost::asio::ip::tcp::socket& socket) : state_(std::make_shared<State>(socket)) {}

SocketDeadline::~SocketDeadline() {
  disarm();
}

void SocketDeadline::arm(loader::TimePoint when) {
  const auto generation = ++state_->generation;
  state_->expired = false;
  state_->timer.expires_at(when);
  state_->timer.async_wait([state = state_, generation](boost::system::error_code) {
    if (state->generation != generation) return;
    state->expired = true;
    boost::system::error_code ignored;
    state->socket.cancel(ignored);
  });
}

void SocketDeadline::disarm() {
  ++state_->generation;
  state_->timer.cancel();
}

bool SocketDeadline::expired() const noexcept {
  return state_->expired;
}

}  // namespace mme::server
