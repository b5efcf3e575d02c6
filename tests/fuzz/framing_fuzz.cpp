// Any bytes as what a client sends on one connection, one request behind the other. What is taken for a request must be
// one by a second, naive reading; nothing is lost or read twice; and where the bytes were cut makes no difference.
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "server/http/body_reader.hpp"
#include "server/http/framing_guard.hpp"
#include "server/http/status.hpp"
#include "tests/fuzz/demand.hpp"
#include "tests/fuzz/plain_http.hpp"

using namespace mme::server;
using namespace mme::fuzz;

namespace {

/// Small, so that inputs of a few hundred bytes reach each of them.
HttpLimits small_limits() {
  HttpLimits limits;
  limits.headers = 300;
  limits.header_count = 12;
  limits.target = 64;
  limits.body = 100;
  return limits;
}

struct Taken {
  std::string head;  ///< raw
  std::string body;
  std::string wire;  ///< raw bytes that the body took
  Head parsed;
  bool refused = false;  ///< well framed, but answered with an error; its body was read and dropped
};

struct Outcome {
  std::vector<Taken> requests;
  std::optional<ErrorCode> error;  ///< that ended the connection
  std::string rest;                ///< not taken for anything yet
  bool in_chunks = false;          ///< it ended within a chunked body
};

/// A connection as the session reads it, without the session: bytes in pieces, requests out.
class Connection {
 public:
  explicit Connection(const HttpLimits& limits) : limits_(limits) {}

  void arrive(std::string_view piece) {
    const auto room = buffer_.prepare(piece.size());
    buffer_.commit(boost::asio::buffer_copy(room, boost::asio::buffer(piece.data(), piece.size())));
    while (!outcome_.error && step()) {
    }
  }
  Outcome finish() {
    outcome_.rest = std::string(pending());
    outcome_.in_chunks = reader_ && now_.parsed.body == BodyKind::chunked;
    return std::move(outcome_);
  }

 private:
  std::string_view pending() const { return {static_cast<const char*>(buffer_.data().data()), buffer_.size()}; }

  bool stop(const mme::loader::Error& error) {
    demand_plain(error);
    outcome_.error = error.code;
    return false;
  }

  /// False when more bytes are needed, or none will help.
  bool step() {
    if (!reader_) return take_head();
    const auto before = std::string(pending());
    const auto done = reader_->put(buffer_);
    demand(before.ends_with(pending()), "a body is taken from the front");
    now_.wire += before.substr(0, before.size() - buffer_.size());
    if (!done) return stop(done.error());
    if (!*done) return false;
    now_.body = reader_->take_body();
    finish_request();
    return true;
  }

  bool take_head() {
    const auto size = scan_head(pending(), limits_);
    if (!size) return stop(size.error());
    if (*size == 0) return false;
    demand(*size <= buffer_.size(), "a head lies within what came");
    now_ = Taken{std::string(pending().substr(0, *size)), {}, {}, {}, false};
    auto head = parse_head(now_.head, limits_);
    if (!head) return stop(head.error());
    now_.parsed = *head;
    buffer_.consume(*size);
    return check();
  }

  /// The session's rule: what is refused on its head keeps the connection only when its body is small and plain.
  bool check() {
    if (const auto checked = check_head(now_.parsed, limits_, true); !checked) {
      demand_plain(checked.error());
      const bool unread = now_.parsed.body == BodyKind::chunked || now_.parsed.expects_continue;
      if (closes_connection(checked.error().code) || unread) return stop(checked.error());
      now_.refused = true;
    }
    reader_.emplace(now_.parsed, limits_, claim_);
    if (const auto begun = reader_->begin(); !begun) return stop(begun.error());
    return true;
  }

  void finish_request() {
    outcome_.requests.push_back(std::move(now_));
    reader_.reset();
  }

  const HttpLimits& limits_;
  const BodyClaim claim_;
  boost::beast::flat_buffer buffer_;
  std::optional<BodyReader> reader_;
  Taken now_;
  Outcome outcome_;
};

void check_target(const Head& head) {
  demand(!head.target.empty() && (head.target.front() == '/' || head.target == "*"), "a target is a path");
  for (const char c : head.target) demand(c > ' ' && c < 0x7f, "a target is printable");
  demand(head.target != "*" || head.method == Method::options, "* is for OPTIONS");
}

void check_request(const Taken& taken, const HttpLimits& limits) {
  const auto plain = read_plain_head(taken.head);
  demand(plain.has_value(), "an accepted head is one by the book");
  demand(plain->fields.size() <= limits.header_count, "not more header lines than allowed");
  demand(taken.head.size() <= limits.target + limits.headers + 64, "not more header bytes than allowed");
  demand(plain->method == to_string(taken.parsed.method), "the method is the first word");
  const bool old = plain->version == "HTTP/1.0";
  demand(old || plain->version == "HTTP/1.1", "a version we speak");
  const auto hosts = plain->all("host");
  demand(hosts.size() == 1 || (old && hosts.empty()), "one Host");
  const auto codings = plain->all("transfer-encoding");
  const auto lengths = plain->all("content-length");
  demand(codings.empty() || lengths.empty(), "one framing, not two");
  demand(codings.size() < 2 && lengths.size() < 2, "each framing once");
  check_target(taken.parsed);
  demand(taken.body.size() <= limits.body, "a body is within its limit");
  if (!codings.empty()) {
    demand(!old && lower(codings[0]) == "chunked", "chunked and nothing else");
    const auto chunks = read_plain_chunks(taken.wire);
    demand(chunks && chunks->body == taken.body && chunks->size == taken.wire.size(), "chunks by the book");
    return;
  }
  demand(taken.wire == taken.body, "a plain body is what came");
  const auto length = lengths.empty() ? std::string("0") : lengths[0];
  demand(!length.empty() && length.find_first_not_of("0123456789") == length.npos, "a length is digits");
  demand(std::stoull(length) == taken.body.size(), "a body is as long as its length says");
}

void check_whole(const Outcome& outcome, std::string_view bytes, const HttpLimits& limits) {
  std::string sum;
  for (const auto& taken : outcome.requests) {
    check_request(taken, limits);
    sum += taken.head + taken.wire;
  }
  demand(bytes.starts_with(sum), "requests lie one behind the other, from the first byte on");
  demand(outcome.error || bytes.ends_with(outcome.rest), "what is left is the end of what came");
  std::size_t blank_lines = 0;
  for (auto at = bytes.find("\r\n\r\n"); at != bytes.npos; at = bytes.find("\r\n\r\n", at + 1)) ++blank_lines;
  demand(outcome.requests.size() <= blank_lines, "no more requests than blank lines");
}

void check_same(const Outcome& a, const Outcome& b) {
  demand(a.requests.size() == b.requests.size(), "as many requests however the bytes are cut");
  for (std::size_t i = 0; i < a.requests.size(); ++i) {
    demand(a.requests[i].head == b.requests[i].head && a.requests[i].body == b.requests[i].body,
           "the same requests however the bytes are cut");
    demand(a.requests[i].refused == b.requests[i].refused, "the same refusals however the bytes are cut");
  }
  // Of two things wrong with one head, the one that is told is the first that came. And Beast may wait for the end of a
  // broken chunk extension that it would have refused had more been there; nothing is taken for a request meanwhile.
  if (a.in_chunks && b.in_chunks) return;
  demand(a.error.has_value() == b.error.has_value(), "the same end however the bytes are cut");
  demand(a.error || a.rest == b.rest, "the same is left however the bytes are cut");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto limits = small_limits();
  Connection whole(limits);
  whole.arrive(bytes);
  const auto outcome = whole.finish();
  check_whole(outcome, bytes, limits);

  Connection single(limits);
  for (std::size_t i = 0; i < size; ++i) single.arrive(bytes.substr(i, 1));
  check_same(outcome, single.finish());

  std::minstd_rand random(static_cast<unsigned>(size) + (size == 0 ? 0U : data[size / 2]));
  Connection pieces(limits);
  for (std::size_t at = 0; at < size;) {
    const auto piece = bytes.substr(at, 1 + random() % 40);
    pieces.arrive(piece);
    at += piece.size();
  }
  check_same(outcome, pieces.finish());
  return 0;
}
