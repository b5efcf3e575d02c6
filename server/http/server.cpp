// The HTTP server: one listener, its sessions, and the order of its shutdown.
// Parses and answers nothing itself.
#include "server/http/server.hpp"

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <ctime>
#include <utility>

#include "loader/guards.hpp"
#include "server/http/listener.hpp"
#include "server/http/reply.hpp"
#include "server/http/session.hpp"
#include "server/http/task_group.hpp"

namespace mme::server {
namespace {

using asio::ip::tcp;

constexpr auto kDrainToken = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kRefusalTime{500};
/// Refusals under way at once; above that a connection is closed without a word.
constexpr std::size_t kRefusals = 64;
constexpr std::chrono::milliseconds kAbandonTime{1000};
constexpr std::chrono::milliseconds kCutTime{2000};

/// Tells a connection over the limit to come back. Reads what the client sends so that the answer is not lost to a
/// reset, for a short time.
asio::awaitable<void> refuse_connection(tcp::socket socket) {
  const auto reply = neutral_error(fail(ErrorCode::not_ready, "too many connections"));
  const auto id = make_request_id();
  ReplyFrame frame;
  frame.keep_alive = false;
  frame.request_id = id;
  frame.now = std::time(nullptr);
  const auto bytes = serialize_head(reply, frame) + reply.body;
  SocketDeadline deadline(socket);
  deadline.arm(kRefusalTime);
  co_await asio::async_write(socket, asio::buffer(bytes), kDrainToken);
  boost::system::error_code failed;
  socket.shutdown(tcp::socket::shutdown_send, failed);
  std::array<char, 4096> dropped;
  while (!failed && !deadline.expired()) {
    const auto [error, size] = co_await socket.async_read_some(asio::buffer(dropped), kDrainToken);
    failed = error;
  }
}

}  // namespace

struct Server::State {
  State(asio::io_context& i, const HttpOptions& o, Router r, AccessSink s, BodyClaim c) : io(i) {
    context = std::make_shared<SessionContext>(o, std::move(r), std::move(s), std::move(c));
  }
  void accept(tcp::socket socket) {
    const auto executor = socket.get_executor();
    if (!loader::guard("connection_limit") || sessions.size() < context->options.get()->limits.connections) {
      auto session = std::make_shared<Session>(std::move(socket), context);
      auto notify = [weak = std::weak_ptr(session)](Stage stage) {
        if (const auto alive = weak.lock()) alive->notify(stage);
      };
      sessions.spawn(executor, Session::run(session), std::move(notify));
      return;
    }
    ++refused;
    if (refusals.size() < kRefusals) refusals.spawn(executor, refuse_connection(std::move(socket)), {});
  }

  asio::io_context& io;
  std::shared_ptr<SessionContext> context;
  std::shared_ptr<Listener> listener;
  TaskGroup sessions;
  TaskGroup refusals;
  std::atomic<std::uint64_t> refused{0};
};

Server::Server(asio::io_context& io, HttpOptions options, Router router, AccessSink sink, BodyClaim claim)
    : state_(std::make_shared<State>(io, options, std::move(router), std::move(sink), std::move(claim))) {}

Result<std::uint16_t> Server::start(const std::string& address, std::uint16_t port) {
  auto opened = Listener::open(state_->io, address, port);
  if (!opened) return opened.error();
  state_->listener = *opened;
  state_->context->loopback_only = (*opened)->is_loopback() && state_->context->options.get()->check_loopback_host;
  // Weak: the listener lives in the state.
  (*opened)->start([weak = std::weak_ptr(state_)](tcp::socket socket) {
    if (const auto state = weak.lock()) state->accept(std::move(socket));
  });
  return (*opened)->port();
}

asio::awaitable<void> Server::drain(std::chrono::milliseconds limit) {
  const auto state = state_;
  const auto until = loader::Clock::now() + limit;
  if (state->listener) co_await state->listener->stop();
  state->sessions.tell(Stage::drain);
  if (co_await state->sessions.join(until)) co_return;
  state->sessions.tell(Stage::abandon);
  if (co_await state->sessions.join(loader::Clock::now() + kAbandonTime)) co_return;
  state->sessions.cut();
  state->refusals.cut();
  co_await state->sessions.join(loader::Clock::now() + kCutTime);
}

void Server::set_options(const HttpOptions& options) {
  state_->context->options.set(options);
}

ServerCounts Server::counts() const {
  const auto& listener = state_->listener;
  return ServerCounts{state_->sessions.size(), state_->refused.load(), listener ? listener->shortages() : 0};
}

}  // namespace mme::server
