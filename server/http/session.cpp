// One connection: reads a request, has it answered, writes the reply, again and again.
// Does not know routes, models or what a reply means.
#include "server/http/session.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <chrono>
#include <utility>
#include <variant>

#include "loader/guards.hpp"
#include "server/http/reply.hpp"
#include "server/http/status.hpp"
#include "server/http/uri.hpp"

namespace mme::server {
namespace {

using boost::system::error_code;
using loader::Clock;
using loader::guard;

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kHeadPiece = 4096;
constexpr std::size_t kBodyPiece = 64 * 1024;
constexpr std::size_t kWritePiece = 64 * 1024;
/// Requests read ahead while one runs; a client that pipelines more waits in its own socket.
constexpr std::size_t kReadAhead = 64 * 1024;
/// An unread body up to this size is read and dropped, so that the connection can be kept.
constexpr std::size_t kDroppedBody = 64 * 1024;
constexpr std::size_t kLingerBytes = std::size_t{4} << 20;
/// Less than a second, so that the descriptors of a thousand clients that were cut are back within one.
constexpr std::chrono::milliseconds kLingerTime{700};
/// At shutdown: for a connection that was accepted and whose first request may be on its way.
constexpr std::chrono::milliseconds kFreshGrace{1000};

/// X-Request-Timeout-Ms: 1 to 9 digits, not zero.
Result<std::chrono::milliseconds> parse_timeout(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || error != std::errc{} || end != text.data() + text.size() || text.size() > 9 || value == 0) {
    return fail(ErrorCode::invalid_request, "X-Request-Timeout-Ms must be a whole number of milliseconds");
  }
  return std::chrono::milliseconds(value);
}

}  // namespace

/// One request on its way through the session. Its end, however it comes, writes the access line.
struct Session::Turn {
  explicit Turn(const AccessSink& s) : sink(s) { line.status = kClientGone; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    line.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (sink) sink(line);
  }
  const AccessSink& sink;
  loader::TimePoint start = Clock::now();
  Head head;
  Request request;
  AccessLine line;
};

Session::Session(asio::ip::tcp::socket socket, std::shared_ptr<const SessionContext> context)
    : socket_(std::move(socket)), context_(std::move(context)), options_(context_->options.get()), deadline_(socket_) {}

asio::awaitable<void> Session::run(std::shared_ptr<Session> self) {
  bool more = true;
  while (more) more = co_await self->serve_one();
  if (self->linger_) co_await self->linger();
}

void Session::notify(Stage stage) {
  stage_ = stage;
  error_code ignored;
  if (idle_ && fresh_ && stage == Stage::drain) {
    deadline_.arm(kFreshGrace);
  } else if (stage == Stage::abandon || should_close_idle()) {
    socket_.cancel(ignored);
  }
}

/// At shutdown a connection between two requests closes, unless the next one has already arrived.
bool Session::should_close_idle() const {
  if (!stage_ || !idle_ || fresh_) return false;
  error_code ignored;
  return socket_.available(ignored) == 0;
}

std::string_view Session::pending() const noexcept {
  return {static_cast<const char*>(buffer_.cdata().data()), buffer_.size()};
}

/// The end of input is remembered: Asio reports it once, and a further read would wait for an event that has been.
asio::awaitable<error_code> Session::fill(std::size_t most) {
  if (input_ended_) co_return error_code(asio::error::eof);
  const auto [error, size] = co_await socket_.async_read_some(buffer_.prepare(most), kToken);
  buffer_.commit(size);
  input_ended_ = error == asio::error::eof;
  co_return error;
}

// ---- one request ------------------------------------------------------------------------------------------------

asio::awaitable<bool> Session::serve_one() {
  options_ = context_->options.get();
  const auto size = co_await read_head();
  options_ = context_->options.get();  // the wait for a request may have been long
  deadline_.disarm();
  idle_ = false;
  fresh_ = false;
  if (size && *size == 0) {
    linger_ = false;  // nothing was asked, so no answer can be lost
    co_return false;
  }
  Turn turn(context_->sink);
  if (!size) co_return co_await refuse_framing(turn, size.error());
  auto head = parse_head(pending().substr(0, *size), options_->limits);
  if (!head) co_return co_await refuse_framing(turn, head.error());
  buffer_.consume(*size);
  turn.head = std::move(*head);
  co_return co_await answer(turn);
}

/// Nothing behind the head can be trusted: say so and close.
asio::awaitable<bool> Session::refuse_framing(Turn& turn, Error error) {
  turn.request.id = make_request_id();
  turn.line.request_id = turn.request.id;
  turn.line.record.reason = loader::reason(error.code);
  auto reply = Router::early_error(error);
  co_return co_await send(turn, std::move(reply), guard("framing_error_closes"));
}

asio::awaitable<bool> Session::answer(Turn& turn) {
  using namespace asio::experimental::awaitable_operators;
  if (auto refusal = refuse(turn)) co_return co_await answer_refused(turn, std::move(*refusal));
  if (const auto body = co_await read_body(turn); !body) {
    turn.line.record.reason = loader::reason(body.error().code);
    auto reply = context_->router.error_reply(turn.request.path, body.error());
    co_return co_await send(turn, std::move(reply), true);
  }
  auto outcome = co_await (context_->router.handle(turn.request, turn.line.record) || watch());
  if (auto* reply = std::get_if<Reply>(&outcome)) co_return co_await send(turn, std::move(*reply), false);
  if (std::get<Interruption>(outcome) == Interruption::gone) {
    linger_ = false;
    co_return false;
  }
  const Error error = fail(ErrorCode::shutting_down, "the server is shutting down");
  turn.line.record.reason = loader::reason(error.code);
  auto reply = context_->router.error_reply(turn.request.path, error);
  co_return co_await send(turn, std::move(reply), true);
}

/// Refused on its head. A small body is read and dropped so that the connection can go on; else it closes. A client
/// that waits for 100 may or may not send its body after this answer, so that connection closes, too.
asio::awaitable<bool> Session::answer_refused(Turn& turn, Refusal refusal) {
  const auto& head = turn.head;
  bool close = refusal.close;
  if (head.body == BodyKind::chunked || head.body_size > kDroppedBody) close = guard("drain_or_close");
  if (head.body != BodyKind::none && head.expects_continue) close = true;
  if (guard("drain_or_close") && !close && head.body == BodyKind::sized) {
    const auto dropped = co_await read_body(turn);
    close = !dropped;
    turn.request.drop_body();
  }
  co_return co_await send(turn, std::move(refusal.reply), close);
}

/// Makes the request from the head. Errors leave the framing intact.
Result<void> Session::fill_request(Turn& turn) const {
  auto& request = turn.request;
  const std::string_view target = turn.head.target;
  const auto mark = target.find('?');
  request.method = turn.head.method;
  request.path = target.substr(0, mark);
  request.headers = std::move(turn.head.headers);
  const auto id = request.header("X-Request-Id");
  request.id = id && is_request_id(*id) ? std::string(*id) : make_request_id();
  request.deadline = turn.start + options_->timeouts.request;
  request.budget = {context_->claim, options_->limits.uncharged, options_->limits.response};
  turn.line.method = to_string(request.method);
  turn.line.path = request.path;
  turn.line.request_id = request.id;
  if (const auto text = request.header("X-Request-Timeout-Ms")) {
    const auto wanted = parse_timeout(*text);
    if (!wanted) return wanted.error();
    request.deadline = std::min(request.deadline, turn.start + *wanted);
  }
  auto query = decode_query(mark == target.npos ? std::string_view{} : target.substr(mark + 1));
  if (!query) return query.error();
  request.query = std::move(*query);
  return {};
}

std::optional<Session::Refusal> Session::refuse(Turn& turn) const {
  auto checked = check_head(turn.head, options_->limits, context_->loopback_only);
  auto filled = fill_request(turn);
  if (checked) checked = filled;
  if (!checked) {
    const auto& error = checked.error();
    turn.line.record.reason = loader::reason(error.code);
    return Refusal{context_->router.error_reply(turn.request.path, error), closes_connection(error.code)};
  }
  if (auto reply = context_->router.refuse(turn.request, turn.line.record)) return Refusal{std::move(*reply), false};
  return std::nullopt;
}

// ---- reading ----------------------------------------------------------------------------------------------------

/// Before a request: gives back the room that the last one needed, and sets the time for the next to begin.
void Session::start_waiting() {
  if (buffer_.size() == 0 && buffer_.capacity() > kHeadPiece) buffer_.shrink_to_fit();
  const auto& timeouts = options_->timeouts;
  if (fresh_ ? guard("slow_header") : guard("keep_alive_time")) {
    deadline_.arm(fresh_ ? timeouts.header : timeouts.keep_alive);
  }
}

/// Size of the next head, which is then in the buffer; 0 when the connection ends without a further request.
asio::awaitable<Result<std::size_t>> Session::read_head() {
  start_waiting();
  bool started = false;
  bool skipped = false;
  for (;;) {
    // Some clients send an empty line after a body; one is forgiven.
    if (!skipped && pending().starts_with("\r\n")) {
      buffer_.consume(2);
      skipped = true;
    }
    if (!started && buffer_.size() != 0) {
      started = true;
      if (guard("slow_header")) deadline_.arm(options_->timeouts.header);
    }
    auto scanned = scan_head(pending(), options_->limits);
    if (!scanned || *scanned != 0) co_return scanned;
    idle_ = !started;
    if (should_close_idle()) co_return std::size_t{0};
    const auto error = co_await fill(kHeadPiece);
    if (!error) continue;
    if (auto reason = why_head_ended(error)) co_return std::move(*reason);
    co_return std::size_t{0};
  }
}

/// What to answer to a head that did not come whole; nothing when not a byte of it came, or nobody is there.
std::optional<Error> Session::why_head_ended(error_code error) const {
  if (buffer_.size() == 0) return std::nullopt;
  if (deadline_.expired()) return fail(ErrorCode::read_timeout, "the request headers took too long");
  if (stage_ == Stage::abandon) return fail(ErrorCode::shutting_down, "the server is shutting down");
  if (error == asio::error::eof) return fail(ErrorCode::invalid_request, "the request ended within its headers");
  return std::nullopt;
}

/// For the next bytes of a body, which must be there before the request's own time ends.
loader::TimePoint Session::body_deadline(Deadline request) const {
  const auto idle = guard("slow_body") ? Clock::now() + options_->timeouts.body_idle : Deadline::max();
  return guard("request_deadline") ? std::min(idle, request) : idle;
}

asio::awaitable<Result<void>> Session::read_body(Turn& turn) {
  BodyReader reader(turn.head, options_->limits, context_->claim);
  if (turn.head.body == BodyKind::none) co_return Result<void>{};
  if (auto begun = reader.begin(); !begun) co_return begun.error();
  if (turn.head.expects_continue && buffer_.size() == 0) {
    constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    deadline_.arm(options_->timeouts.write_idle);
    co_await asio::async_write(socket_, asio::buffer(go_on), kToken);
  }
  for (;;) {
    auto done = reader.put(buffer_);
    turn.line.bytes_in = reader.received();
    if (!done) co_return done.error();
    if (*done) break;
    deadline_.arm(body_deadline(turn.request.deadline));
    const auto error = co_await fill(kBodyPiece);
    if (error) co_return why_body_ended();
  }
  deadline_.disarm();
  turn.request.body = reader.take_body();
  turn.request.body_grant = reader.take_grant();
  co_return Result<void>{};
}

Error Session::why_body_ended() const {
  if (deadline_.expired()) return fail(ErrorCode::read_timeout, "the request body took too long");
  if (stage_ == Stage::abandon) return fail(ErrorCode::shutting_down, "the server is shutting down");
  return fail(ErrorCode::invalid_request, "the request ended within its body");
}

/// Ends when the client leaves or the server gives the request up. Requests that the client sends ahead are kept in the
/// buffer; behind a full buffer only a broken connection is seen.
asio::awaitable<Session::Interruption> Session::watch() {
  for (;;) {
    if (stage_ == Stage::abandon) co_return Interruption::abandoned;
    error_code error;
    if (buffer_.size() < kReadAhead) {
      error = co_await fill(std::min(kHeadPiece, kReadAhead - buffer_.size()));
    } else {
      const auto [failed] = co_await socket_.async_wait(asio::ip::tcp::socket::wait_error, kToken);
      error = failed ? failed : error_code(asio::error::connection_reset);
    }
    if (error && stage_ != Stage::abandon) co_return Interruption::gone;
  }
}

// ---- writing ----------------------------------------------------------------------------------------------------

/// What to send instead of a reply that is too large, or for which there is no room while it is being sent.
std::optional<Reply> Session::refuse_reply(Turn& turn, Reply& reply) const {
  const auto& limits = options_->limits;
  const auto size = reply.body.size();
  std::optional<Error> error;
  if (guard("response_limit") && size > limits.response) {
    error = fail(ErrorCode::body_too_large, "the reply is over the limit");
  }
  if (guard("reply_in_budget") && !error && size > limits.uncharged && context_->claim && !reply.grant) {
    reply.grant = context_->claim(reply.body.capacity());
    if (!reply.grant) error = fail(ErrorCode::all_in_use, "there is no memory for this reply now");
  }
  if (!error) return std::nullopt;
  turn.line.record.reason = loader::reason(error->code);
  return context_->router.error_reply(turn.request.path, *error);
}

asio::awaitable<bool> Session::send(Turn& turn, Reply reply, bool close) {
  turn.request.drop_body();  // not needed any more
  if (auto instead = refuse_reply(turn, reply)) reply = std::move(*instead);
  const bool keep_alive = turn.head.keep_alive && !close && !stage_;
  ReplyFrame frame;
  frame.http_1_0 = turn.head.http_1_0;
  frame.keep_alive = keep_alive;
  frame.request_id = turn.request.id;
  frame.now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const auto head = serialize_head(reply, frame);
  turn.line.status = reply.status;
  std::string_view body = reply.body;
  if (turn.head.method == Method::head || has_no_body(reply.status)) body = {};
  const bool written = co_await write(head, body, turn);
  // Worth it only while an answer is on its way and the client may still send; one that asked to close will not.
  linger_ = written && (close || turn.head.keep_alive || buffer_.size() != 0);
  co_return written&& keep_alive;
}

/// In pieces, each with its own time: a client that takes its reply drop by drop is cut.
asio::awaitable<bool> Session::write(std::string_view head, std::string_view body, Turn& turn) {
  do {
    const auto piece = body.substr(0, kWritePiece);
    const std::array<asio::const_buffer, 2> buffers{asio::buffer(head), asio::buffer(piece)};
    if (guard("slow_reader")) deadline_.arm(options_->timeouts.write_idle);
    const auto [error, size] = co_await asio::async_write(socket_, buffers, kToken);
    turn.line.bytes_out += size - std::min(size, head.size());
    if (error) co_return false;
    head = {};
    body.remove_prefix(piece.size());
  } while (!body.empty());
  deadline_.disarm();
  co_return true;
}

/// Closing a socket with unread bytes makes the kernel send a reset that can overtake the answer. So: no more from us,
/// then take what still comes, up to a bound.
asio::awaitable<void> Session::linger() {
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  deadline_.arm(kLingerTime);
  std::size_t dropped = 0;
  while (dropped < kLingerBytes && stage_ != Stage::abandon) {
    buffer_.clear();
    if (co_await fill(kBodyPiece)) break;
    dropped += buffer_.size();
  }
}

}  // namespace mme::server
