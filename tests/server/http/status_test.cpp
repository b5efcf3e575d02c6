// The table from error codes to statuses, and replies in bytes.
#include "server/http/status.hpp"

#include <simdjson.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "server/http/access.hpp"
#include "server/http/reply.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;
using namespace std::string_literals;

namespace {

/// Every code, by the name that clients see.
const std::map<std::string, unsigned> kStatuses{{"invalid_request", 400},
                                                {"invalid_tensor", 400},
                                                {"unauthorized", 401},
                                                {"forbidden", 403},
                                                {"route_unknown", 404},
                                                {"method_not_allowed", 405},
                                                {"not_acceptable", 406},
                                                {"read_timeout", 408},
                                                {"body_too_large", 413},
                                                {"target_too_long", 414},
                                                {"headers_too_large", 431},
                                                {"media_type_unsupported", 415},
                                                {"expectation_failed", 417},
                                                {"method_not_implemented", 501},
                                                {"version_not_supported", 505},
                                                {"model_unknown", 404},
                                                {"already_loaded", 409},
                                                {"conflict", 409},
                                                {"model_broken", 422},
                                                {"inference_failed", 500},
                                                {"not_ready", 503},
                                                {"settling", 503},
                                                {"quarantined", 503},
                                                {"queue_full", 429},
                                                {"load_timeout", 504},
                                                {"deadline_exceeded", 504},
                                                {"cannot_fit", 507},
                                                {"all_in_use", 507},
                                                {"activations", 507},
                                                {"storage_full", 507},
                                                {"shutting_down", 503},
                                                {"internal", 500}};

}  // namespace

TEST_CASE("every error code has its status, and the table knows every code") {
  std::size_t codes = 0;
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i, ++codes) {
    const auto code = static_cast<ErrorCode>(i);
    const std::string name(loader::reason(code));
    INFO(name);
    REQUIRE(kStatuses.contains(name));
    CHECK(http_status(code) == kStatuses.at(name));
    CHECK(status_phrase(http_status(code)) != "Unknown");
  }
  CHECK(codes == kStatuses.size());
}

TEST_CASE("Retry-After is given where trying again helps, and never for what cannot fit") {
  for (const auto code : {ErrorCode::queue_full, ErrorCode::not_ready, ErrorCode::settling, ErrorCode::shutting_down,
                          ErrorCode::quarantined, ErrorCode::all_in_use}) {
    CHECK(retry_after_seconds(code).value_or(0) > 0);
  }
  for (const auto code : {ErrorCode::cannot_fit, ErrorCode::invalid_request, ErrorCode::model_broken}) {
    CHECK_FALSE(retry_after_seconds(code));
  }
}

TEST_CASE("a reply's head is its headers and ours") {
  Reply reply;
  reply.headers = {{"Content-Type", "text/plain"}, {"Content-Length", "7"}, {"connection", "upgrade"}};
  reply.body = "abc";
  ReplyFrame frame;
  frame.request_id = "r1";
  frame.now = 784111777;
  CHECK(serialize_head(reply, frame) ==
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Request-Id: "
        "r1\r\nContent-Length: 3\r\n\r\n");
  frame.keep_alive = false;
  CHECK(serialize_head(reply, frame).ends_with("Content-Length: 3\r\nConnection: close\r\n\r\n"));
  frame.keep_alive = true;
  frame.http_1_0 = true;
  CHECK(serialize_head(reply, frame).ends_with("Connection: keep-alive\r\n\r\n"));
  reply.status = 204;
  CHECK(serialize_head(reply, frame).find("Content-Length") == std::string::npos);
}

TEST_CASE("no header value can end its line") {
  Reply reply;
  reply.headers = {{"X-A", "a\r\nSet-Cookie: b\0c\x7f"s}, {"X\r\nY", "a"}, {"", "a"}, {"X B", "a"}};
  const auto head = serialize_head(reply, {});
  CHECK(head.find("X-A: a  Set-Cookie: b c \r\n") != std::string::npos);
  CHECK(head.find("\nSet-Cookie") == std::string::npos);
  CHECK(head.find("X B") == std::string::npos);
  CHECK(head.find("Y: a") == std::string::npos);
}

TEST_CASE("the neutral error is JSON whatever the message holds") {
  const auto reply = neutral_error(loader::fail(ErrorCode::queue_full, "a \"b\"\n\xff"));
  CHECK(reply.status == 429);
  CHECK(find_header(reply.headers, "X-MME-Reason") == "queue_full");
  CHECK(find_header(reply.headers, "Retry-After") == "1");
  simdjson::dom::parser parser;
  const std::string_view text = parser.parse(reply.body)["error"];
  CHECK(text == "a \"b\"\n\xef\xbf\xbd");
}

TEST_CASE("annotating twice changes nothing") {
  auto reply = neutral_error(loader::fail(ErrorCode::queue_full, "x"));
  const auto before = reply.headers;
  annotate(reply, ErrorCode::queue_full);
  CHECK(reply.headers == before);
}

TEST_CASE("request ids that may be echoed") {
  for (const char* good : {"a", "A-Z_0.9:x", "00000000-0000-0000-0000-000000000000"}) CHECK(is_request_id(good));
  CHECK(is_request_id(std::string(128, 'a')));
  for (const auto& bad : {""s, "a b"s, "a\r\n"s, "a\0"s, "a/b"s, "\xc3\xa4"s, std::string(129, 'a')}) {
    CHECK_FALSE(is_request_id(bad));
  }
  CHECK(is_request_id(make_request_id()));
  CHECK(make_request_id() != make_request_id());
}

TEST_CASE("an access line is one line of valid JSON") {
  AccessLine line;
  line.method = "GET";
  line.path = "/a\"\\b\n\xff";
  line.status = 200;
  line.bytes_out = std::numeric_limits<std::uint64_t>::max();
  line.seconds = 0.25;
  line.record.model = "m\t1";
  line.record.load_ms = 12.5;
  std::string text = "{";
  append_access(text, line);
  text += '}';
  CHECK(text.find('\n') == std::string::npos);
  simdjson::dom::parser parser;
  const auto parsed = parser.parse(text);
  REQUIRE(parsed.error() == simdjson::SUCCESS);
  CHECK(std::string_view(parsed["path"]) == "/a\"\\b\n\xef\xbf\xbd");
  CHECK(std::string_view(parsed["model"]) == "m\t1");
  CHECK(uint64_t(parsed["bytes_out"]) == std::numeric_limits<std::uint64_t>::max());
  CHECK(double(parsed["seconds"]) == 0.25);
  CHECK(double(parsed["load_ms"]) == 12.5);
  CHECK(parsed["reason"].error() != simdjson::SUCCESS);
}

TEST_CASE("times that are no numbers do not break the access line") {
  AccessLine line;
  line.seconds = std::numeric_limits<double>::quiet_NaN();
  line.record.run_ms = std::numeric_limits<double>::infinity();
  std::string text = "{";
  append_access(text, line);
  text += '}';
  simdjson::dom::parser parser;
  CHECK(parser.parse(text).error() == simdjson::SUCCESS);
}
