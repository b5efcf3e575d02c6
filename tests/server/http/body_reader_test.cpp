// Bodies put together from bytes that arrive in any pieces, and what they are charged.
#include "server/http/body_reader.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;

namespace {

void append(boost::beast::flat_buffer& buffer, std::string_view text) {
  std::memcpy(buffer.prepare(text.size()).data(), text.data(), text.size());
  buffer.commit(text.size());
}

Head sized(std::uint64_t size) {
  Head head;
  head.body = size == 0 ? BodyKind::none : BodyKind::sized;
  head.body_size = size;
  return head;
}

Head chunks() {
  Head head;
  head.body = BodyKind::chunked;
  return head;
}

struct Outcome {
  std::optional<ErrorCode> error;
  bool done = false;
  std::string body;
  std::string rest;
};

/// Feeds `text` in pieces of `piece` bytes until the body is done or refused.
Outcome feed(const Head& head, const std::string& text, std::size_t piece, const HttpLimits& limits = {},
             const BodyClaim& claim = {}) {
  BodyReader reader(head, limits, claim);
  Outcome outcome;
  if (const auto begun = reader.begin(); !begun) return {begun.error().code, false, "", ""};
  boost::beast::flat_buffer buffer;
  for (std::size_t at = 0; at < text.size() && !outcome.done; at += piece) {
    append(buffer, std::string_view(text).substr(at, piece));
    const auto put = reader.put(buffer);
    if (!put) return {put.error().code, false, "", ""};
    outcome.done = *put;
  }
  outcome.body = reader.take_body();
  outcome.rest = std::string(static_cast<const char*>(buffer.data().data()), buffer.size());
  return outcome;
}

/// Counts every byte it was asked for; refuses above `limit`.
struct Meter : loader::MemoryGrant {
  explicit Meter(std::size_t l) : limit(l) {}
  bool grow(std::size_t bytes) noexcept override {
    if (held + bytes > limit) return false;
    held += bytes;
    peak = std::max(peak, held);
    return true;
  }
  void shrink(std::size_t bytes) noexcept override { held -= bytes; }
  void keep(std::size_t) noexcept override {}
  std::size_t limit;
  std::size_t held = 0;
  std::size_t peak = 0;
};

}  // namespace

TEST_CASE("a body of known size takes its bytes and no more") {
  for (const std::size_t piece : {1, 2, 3, 100}) {
    const auto outcome = feed(sized(5), "abcdefgh", piece);
    CHECK(outcome.done);
    CHECK(outcome.body == "abcde");
    CHECK(outcome.body + outcome.rest == std::string("abcdefgh").substr(0, 5 + outcome.rest.size()));
  }
  CHECK(feed(sized(5), "abcd", 4).done == false);
}

TEST_CASE("chunks are put together the same however they are cut") {
  const std::string text = "5;x=\"y\"\r\nhello\r\n1\r\n \r\n00A\r\n0123456789\r\n0\r\nTrailer: a\r\n\r\n";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    INFO(piece);
    const auto outcome = feed(chunks(), text, piece);
    CHECK(outcome.error == std::nullopt);
    CHECK(outcome.done);
    CHECK(outcome.body == "hello 0123456789");
    CHECK(outcome.rest.empty());
  }
  CHECK(feed(chunks(), text + "GET", 1000).rest == "GET");
  for (const std::size_t piece : {1, 2, 3, 4, 5}) CHECK(feed(chunks(), "0\r\n\r\n", piece).done);
}

TEST_CASE("the limit is of the body, to the byte") {
  HttpLimits limits;
  limits.body = 4;
  CHECK(feed(sized(4), "abcd", 9, limits).done);
  CHECK(feed(sized(5), "abcde", 9, limits).error == ErrorCode::body_too_large);
  CHECK(feed(chunks(), "2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n", 9, limits).done);
  CHECK(feed(chunks(), "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n", 9, limits).error == ErrorCode::body_too_large);
}

TEST_CASE("framing that outweighs the body is refused, large chunks are not") {
  std::string tiny;
  for (int i = 0; i < 20'000; ++i) tiny += "1\r\nx\r\n";
  CHECK(feed(chunks(), tiny, 4096).error == ErrorCode::body_too_large);
  std::string fair;
  for (int i = 0; i < 20'000; ++i) fair += "10\r\n0123456789abcdef\r\n";
  CHECK(feed(chunks(), fair + "0\r\n\r\n", 4096).done);
  CHECK(feed(chunks(), "3;" + std::string(20'000, 'a'), 4096).error == ErrorCode::body_too_large);
  CHECK(feed(chunks(), "0\r\nX: " + std::string(20'000, 'a'), 4096).error == ErrorCode::body_too_large);
}

TEST_CASE("a body is charged before it takes room, and the charge is what it takes") {
  HttpLimits limits;
  limits.uncharged = 100;
  limits.body = 1 << 20;
  auto meter = std::make_shared<Meter>(1 << 19);
  const BodyClaim claim = [&](std::size_t bytes) -> std::shared_ptr<loader::MemoryGrant> {
    return meter->grow(bytes) ? meter : nullptr;
  };
  SECTION("small") {
    CHECK(feed(sized(100), std::string(100, 'x'), 10, limits, claim).done);
    CHECK(meter->peak == 0);
  }
  SECTION("sized: at once") {
    BodyReader reader(sized(10'000), limits, claim);
    REQUIRE(reader.begin().has_value());
    CHECK(meter->held == 10'000);
  }
  SECTION("sized, too much") {
    CHECK(feed(sized(600'000), "", 10, limits, claim).error == ErrorCode::all_in_use);
    CHECK(meter->held == 0);
  }
  SECTION("chunked: as it grows") {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "400\r\n" + std::string(1024, 'x') + "\r\n";
    const auto outcome = feed(chunks(), text + "0\r\n\r\n", 1000, limits, claim);
    CHECK(outcome.done);
    CHECK(outcome.body.size() == 102'400);
    CHECK(meter->held >= outcome.body.size());
    CHECK(meter->held <= 2 * outcome.body.size() + 2000);
    CHECK(meter->peak > meter->held);  // while the buffer moved both were counted
  }
  SECTION("chunked, too much") {
    std::string text;
    for (int i = 0; i < 600; ++i) text += "400\r\n" + std::string(1024, 'x') + "\r\n";
    CHECK(feed(chunks(), text, 1000, limits, claim).error == ErrorCode::all_in_use);
  }
}

TEST_CASE("what is no chunk is refused") {
  for (const char* bad : {"\r\n", "x\r\n", "-1\r\n", "1\r\nab\r\n0\r\n\r\n", "1\r\na0\r\n\r\n", "1 \r\na\r\n0\r\n\r\n",
                          "1\r\na\r\n0\r\nbad trailer\r\n\r\n", "1;=\r\na\r\n0\r\n\r\n"}) {
    INFO(bad);
    CHECK(feed(chunks(), bad, 100).error == ErrorCode::invalid_request);
  }
}
