// Accepts connections on one address, and keeps doing so when descriptors run out.
// Does not read from them, count them or decide who is served.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http/message.hpp"

namespace mme::server {

namespace asio = boost::asio;

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  /// Called for each connection, on one thread at a time. The socket has a strand of its own.
  using Accepted = std::function<void(asio::ip::tcp::socket)>;

  /// Binds and listens; accepts nothing yet. Port 0: any free one. Errors: invalid_request (no such address),
  /// conflict (it cannot be bound, in the system's words).
  static Result<std::shared_ptr<Listener>> open(asio::io_context& io, const std::string& address, std::uint16_t port);

  Listener(asio::io_context& io);
  [[nodiscard]] std::uint16_t port() const noexcept { return local_.port(); }
  /// How often accepting failed for want of descriptors or memory.
  [[nodiscard]] std::uint64_t shortages() const noexcept { return shortages_; }
  [[nodiscard]] bool is_loopback() const { return local_.address().is_loopback(); }

  /// Starts the accept loop.
  void start(Accepted accepted);
  /// Takes what the kernel has already accepted, then closes. Done when no further connection will come.
  asio::awaitable<void> stop();

 private:
  Result<void> bind(const asio::ip::tcp::endpoint& where);
  static asio::awaitable<void> accept_loop(std::shared_ptr<Listener> self);
  static asio::awaitable<void> empty_queue(std::shared_ptr<Listener> self);
  void hand_over(asio::ip::tcp::socket socket);

  asio::io_context& io_;
  asio::strand<asio::io_context::executor_type> strand_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  asio::ip::tcp::endpoint local_;
  Accepted accepted_;
  std::atomic<std::uint64_t> shortages_{0};
  bool stopping_ = false;
};

}  // namespace mme::server
