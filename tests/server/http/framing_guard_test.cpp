// The rules of the framing guard on bytes alone. What a whole connection makes of them is in attacks_test.cpp.
#include "server/http/framing_guard.hpp"

#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;
using namespace std::string_literals;

namespace {

const HttpLimits kLimits;

Head parse(const std::string& text) {
  const auto head = parse_head(text, kLimits);
  REQUIRE(head.has_value());
  return *head;
}

Head with(const std::string& lines, const std::string& version = "1.1") {
  return parse("POST /a HTTP/" + version + "\r\nHost: localhost\r\n" + lines + "\r\n");
}

std::optional<ErrorCode> refusal(const Head& head, bool loopback_only = false) {
  const auto checked = check_head(head, kLimits, loopback_only);
  return checked ? std::nullopt : std::optional(checked.error().code);
}

}  // namespace

TEST_CASE("a head ends at its blank line, wherever the bytes are cut") {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  for (std::size_t size = 0; size < head.size(); ++size) {
    const auto scanned = scan_head(head.substr(0, size), kLimits);
    REQUIRE(scanned.has_value());
    CHECK(*scanned == 0);
  }
  CHECK(*scan_head(head, kLimits) == head.size());
  CHECK(*scan_head(head + "\0\n anything"s, kLimits) == head.size());
}

TEST_CASE("bytes that cannot become a head are refused before the head is whole") {
  CHECK(scan_head("GET / HTTP/1.1\n", kLimits).error().code == ErrorCode::invalid_request);
  CHECK(scan_head("GET / HTTP/1.1\rX", kLimits).error().code == ErrorCode::invalid_request);
  CHECK(scan_head("\0"s, kLimits).error().code == ErrorCode::invalid_request);
  CHECK(scan_head("GET /" + std::string(5000, 'a'), kLimits).error().code == ErrorCode::target_too_long);
  CHECK(scan_head("GET / HTTP/1.1\r\nX: " + std::string(9000, 'a'), kLimits).error().code ==
        ErrorCode::headers_too_large);
  CHECK(*scan_head("GET / HTTP/1.1\r", kLimits) == 0);
}

TEST_CASE("a head is taken apart as it was sent") {
  const auto head = parse("POST /a%20b?c=d HTTP/1.1\r\nhost: x.example:80\r\nX-One:  1 \t\r\nX-one: 2\r\n\r\n");
  CHECK(head.method == Method::post);
  CHECK(head.target == "/a%20b?c=d");
  CHECK(head.host == "x.example:80");
  CHECK_FALSE(head.http_1_0);
  CHECK(head.keep_alive);
  CHECK(head.body == BodyKind::none);
  REQUIRE(head.headers.size() == 3);
  CHECK(head.headers[1] == std::pair<std::string, std::string>("X-One", "1"));
  CHECK(find_header(head.headers, "x-ONE") == "1");
  CHECK_FALSE(find_header(head.headers, "x-two"));
}

TEST_CASE("every method has its spelling and no other") {
  const std::vector<std::pair<std::string, Method>> all{
      {"GET", Method::get},     {"HEAD", Method::head},  {"POST", Method::post},       {"PUT", Method::put},
      {"PATCH", Method::patch}, {"DELETE", Method::del}, {"OPTIONS", Method::options}, {"TRACE", Method::trace}};
  for (const auto& [text, method] : all) {
    CHECK(parse(text + " / HTTP/1.1\r\nHost: a\r\n\r\n").method == method);
    CHECK(to_string(method) == text);
    CHECK(parse_head(text + "X / HTTP/1.1\r\nHost: a\r\n\r\n", kLimits).error().code ==
          ErrorCode::method_not_implemented);
  }
}

TEST_CASE("the framing of a body") {
  CHECK(with("").body == BodyKind::none);
  CHECK(with("Content-Length: 0\r\n").body == BodyKind::none);
  CHECK(with("Content-Length: 12\r\n").body_size == 12);
  CHECK(with("Content-Length: 012\r\n").body_size == 12);
  CHECK(with("Content-Length: 999999999999999999\r\n").body_size == 999'999'999'999'999'999);
  CHECK(with("Transfer-Encoding: chunked\r\n").body == BodyKind::chunked);
}

TEST_CASE("a header line that goes on in the next is refused as such, not only for its missing name") {
  for (const char* lines : {"X: a\r\n b: c\r\n", "X: a\r\n\tb\r\n", " b: c\r\n"}) {
    INFO(lines);
    const auto head = parse_head(std::string("GET / HTTP/1.1\r\n") + lines + "Host: a\r\n\r\n", kLimits);
    REQUIRE(head.has_error());
    CHECK(head.error().message == "folded header lines are not accepted");
  }
}

TEST_CASE("who wants the connection kept") {
  CHECK(with("").keep_alive);
  CHECK_FALSE(with("Connection: close\r\n").keep_alive);
  CHECK_FALSE(with("Connection: keep-alive ,\tCLOSE\r\n").keep_alive);
  CHECK_FALSE(with("Connection: a\r\nConnection: close\r\n").keep_alive);
  CHECK(with("Connection: closed\r\n").keep_alive);
  CHECK_FALSE(with("", "1.0").keep_alive);
  CHECK(with("Connection: Keep-Alive\r\n", "1.0").keep_alive);
  CHECK_FALSE(with("Connection: keep-alive, close\r\n", "1.0").keep_alive);
}

TEST_CASE("expectations count on HTTP/1.1 only") {
  CHECK(with("Expect: 100-Continue\r\n").expects_continue);
  CHECK_FALSE(with("Expect: 100-continue\r\n", "1.0").expects_continue);
  CHECK(refusal(with("Expect: 100\r\n")) == ErrorCode::expectation_failed);
  CHECK(refusal(with("Expect: 100\r\n", "1.0")) == std::nullopt);
}

TEST_CASE("well-framed requests that are refused on their head") {
  CHECK(refusal(with("")) == std::nullopt);
  CHECK(refusal(with("Content-Length: 67108864\r\n")) == std::nullopt);
  CHECK(refusal(with("Content-Length: 67108865\r\n")) == ErrorCode::body_too_large);
  CHECK(refusal(with("Content-Encoding: gzip\r\n")) == ErrorCode::media_type_unsupported);
  CHECK(refusal(with("Content-Encoding: IDENTITY\r\n")) == std::nullopt);
}

TEST_CASE("an absolute target names the Host again") {
  const auto head = parse("GET HTTP://A.example:1/x?y=http://z HTTP/1.1\r\nHost: a.EXAMPLE:1\r\n\r\n");
  CHECK(head.target == "/x?y=http://z");
  CHECK(parse("GET http://a?q HTTP/1.1\r\nHost: a\r\n\r\n").target == "/?q");
  CHECK(parse_head("GET http://a:1/ HTTP/1.1\r\nHost: a\r\n\r\n", kLimits).has_error());
  CHECK(parse("GET http://evil/ HTTP/1.0\r\n\r\n").host == "evil");
}

TEST_CASE("which hosts are loopback") {
  for (const char* host : {"localhost", "LocalHost:1", "127.0.0.1", "127.255.1.2:65535", "[::1]", "[::1]:80"}) {
    INFO(host);
    CHECK(is_loopback_host(host));
  }
  for (const char* host : {"", "localhost.", "localhost.evil", "127.0.0.1.evil", "127.1", "128.0.0.1", "0.0.0.0",
                           "[::]", "[::1", "[::1]x", "[::2]:80", "::1", "0177.0.0.1", "2130706433", ":80"}) {
    INFO(host);
    CHECK_FALSE(is_loopback_host(host));
  }
}

TEST_CASE("any bytes at all are either a head or an error, and never read beyond their end") {
  // The alphabet is what heads are made of, so that many of the strings get far.
  const std::vector<std::string> pieces{"GET ", "/",   " HTTP/1.1", "\r\n", "Host: a", "Content-Length: 1", "\r",
                                        "\n",   "\0"s, ":",         " ",    "chunked", "Transfer-Encoding:"};
  std::minstd_rand random(12345);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += pieces[random() % pieces.size()];
    const auto scanned = scan_head(text, kLimits);
    if (!scanned || *scanned == 0) continue;
    REQUIRE(*scanned <= text.size());
    const auto head = parse_head(text.substr(0, *scanned), kLimits);
    if (head) REQUIRE(!head->target.empty());
  }
}
