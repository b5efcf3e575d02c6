// One connection: reads a request, has it answered, writes the reply, again and again.
// Does not know routes, models or what a reply means; does not accept connections.
//
//   idle -> head -> (refused | body -> handler) -> reply -> idle ... -> linger -> closed
//
// Each arrow has a time-out. Whatever goes wrong, the client gets at most one answer for each request it sent and the
// bytes of one request are never taken for another: when a body stays unread, or the framing is in doubt, the
// connection closes after the answer.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "server/http/access.hpp"
#include "server/http/body_reader.hpp"
#include "server/http/deadline.hpp"
#include "server/http/framing_guard.hpp"
#include "server/http/limits.hpp"
#include "server/http/router.hpp"
#include "server/http/task_group.hpp"

namespace mme::server {

/// What all sessions of a listener share.
struct SessionContext {
  SessionContext(const HttpOptions& o, Router r, AccessSink s, BodyClaim c)
      : options(o), router(std::move(r)), sink(std::move(s)), claim(std::move(c)) {}

  SharedHttpOptions options;
  Router router;
  AccessSink sink;
  BodyClaim claim;
  bool loopback_only = false;  ///< refuse a Host that is not loopback
};

/// Everything runs on the socket's executor, which must be a strand.
class Session {
 public:
  Session(asio::ip::tcp::socket socket, std::shared_ptr<const SessionContext> context);

  /// The whole life of the connection.
  static asio::awaitable<void> run(std::shared_ptr<Session> self);
  /// Shutdown: an idle connection closes at once, a running request ends its connection; abandoned ones get 503.
  void notify(Stage stage);

 private:
  struct Turn;
  struct Refusal {
    Reply reply;
    bool close = false;
  };
  enum class Interruption { gone, abandoned };

  asio::awaitable<bool> serve_one();
  asio::awaitable<bool> refuse_framing(Turn& turn, Error error);
  asio::awaitable<bool> answer(Turn& turn);
  asio::awaitable<bool> answer_refused(Turn& turn, Refusal refusal);
  asio::awaitable<bool> send(Turn& turn, Reply reply, bool close);

  asio::awaitable<Result<std::size_t>> read_head();
  asio::awaitable<Result<void>> read_body(Turn& turn);
  asio::awaitable<Interruption> watch();
  asio::awaitable<boost::system::error_code> fill(std::size_t most);
  asio::awaitable<bool> write(std::string_view head, std::string_view body, Turn& turn);
  asio::awaitable<void> linger();

  [[nodiscard]] Result<void> fill_request(Turn& turn) const;
  [[nodiscard]] std::optional<Refusal> refuse(Turn& turn) const;
  [[nodiscard]] std::optional<Reply> refuse_reply(Turn& turn, Reply& reply) const;
  [[nodiscard]] std::optional<Error> why_head_ended(boost::system::error_code error) const;
  [[nodiscard]] Error why_body_ended() const;
  [[nodiscard]] loader::TimePoint body_deadline(Deadline request) const;
  [[nodiscard]] std::string_view pending() const noexcept;
  [[nodiscard]] bool should_close_idle() const;
  void start_waiting();

  asio::ip::tcp::socket socket_;
  std::shared_ptr<const SessionContext> context_;
  std::shared_ptr<const HttpOptions> options_;  ///< as they were when the request began
  SocketDeadline deadline_;
  boost::beast::flat_buffer buffer_;
  std::optional<Stage> stage_;
  bool input_ended_ = false;
  bool idle_ = false;   ///< waiting for the first byte of a request
  bool fresh_ = true;   ///< no request seen yet
  bool linger_ = true;  ///< the client may still be sending; give it time to read the answer
};

}  // namespace mme::server
