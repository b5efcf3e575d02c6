// Accepts connections on one address, and keeps doing so when descriptors run out.
// Does not read from them, count them or decide who is served.
#include "server/http/listener.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace mme::server {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::milliseconds kLongestPause{500};
/// More than any backlog; bounds the last sweep of a listener that is being flooded while it stops.
constexpr int kLastSweep = 65'536;

Error cannot_listen(const tcp::endpoint& where, const error_code& error) {
  return fail(ErrorCode::conflict, "cannot listen on " + where.address().to_string() + ' ' + "port " +
                                       std::to_string(where.port()) + ": " + error.message());
}

}  // namespace

Listener::Listener(asio::io_context& io)
    : io_(io), strand_(asio::make_strand(io)), acceptor_(strand_), pause_(strand_) {}

Result<std::shared_ptr<Listener>> Listener::open(asio::io_context& io, const std::string& address, std::uint16_t port) {
  error_code error;
  const auto ip = asio::ip::make_address(address == "localhost" ? "127.0.0.1" : address, error);
  if (error) return fail(ErrorCode::invalid_request, "a listener's host must be an IP address or localhost");
  auto listener = std::make_shared<Listener>(io);
  if (auto bound = listener->bind(tcp::endpoint(ip, port)); !bound) return bound.error();
  return listener;
}

Result<void> Listener::bind(const tcp::endpoint& where) {
  error_code error;
  acceptor_.open(where.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(where, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) local_ = acceptor_.local_endpoint(error);
  if (error) return cannot_listen(where, error);
  return {};
}

void Listener::start(Accepted accepted) {
  accepted_ = std::move(accepted);
  asio::co_spawn(strand_, accept_loop(shared_from_this()), asio::detached);
}

void Listener::hand_over(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  accepted_(std::move(socket));
}

/// An accept that fails is either the client's doing (it left), which costs nothing, or a shortage of descriptors or
/// memory. A shortage leaves the connection in the kernel's queue, so trying again at once would only spin.
asio::awaitable<void> Listener::accept_loop(std::shared_ptr<Listener> self) {
  auto pause = kFirstPause;
  while (!self->stopping_) {
    auto [error, socket] =
        co_await self->acceptor_.async_accept(asio::make_strand(self->io_), asio::as_tuple(asio::use_awaitable));
    if (!error) {
      pause = kFirstPause;
      self->hand_over(tcp::socket(std::move(socket)));
      continue;
    }
    if (self->stopping_ || error == asio::error::connection_aborted) continue;
    ++self->shortages_;
    self->pause_.expires_after(pause);
    co_await self->pause_.async_wait(asio::as_tuple(asio::use_awaitable));
    pause = std::min(2 * pause, kLongestPause);
  }
}

asio::awaitable<void> Listener::stop() {
  co_await asio::co_spawn(strand_, empty_queue(shared_from_this()), asio::use_awaitable);
}

asio::awaitable<void> Listener::empty_queue(std::shared_ptr<Listener> self) {
  error_code error;
  self->stopping_ = true;
  self->pause_.cancel();
  self->acceptor_.cancel(error);
  self->acceptor_.non_blocking(true, error);
  for (int i = 0; i < kLastSweep && !error; ++i) {
    tcp::socket socket(asio::make_strand(self->io_));
    self->acceptor_.accept(socket, error);
    if (!error) self->hand_over(std::move(socket));
  }
  self->acceptor_.close(error);
  co_return;
}

}  // namespace mme::server
