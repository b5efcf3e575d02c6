// The life of a connection, over a real socket.
#include <string>

#include "tests/server/http/http_fixture.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;
using namespace mme::test;
using namespace std::chrono_literals;

namespace {
const std::string kPing = "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string post(const std::string& path, const std::string& body, const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}
}  // namespace

TEST_CASE("a request is answered and the connection stays open for the next") {
  HttpFixture server;
  auto client = server.client();
  for (int i = 0; i < 3; ++i) {
    client.send(post("/echo/a%20b", "hello"));
    const auto reply = client.read();
    REQUIRE(reply);
    CHECK(reply->status == 200);
    CHECK(reply->body == "a b:hello");
    CHECK(reply->header("Content-Length") == "9");
    CHECK(reply->header("X-Request-Id").size() == 32);
    CHECK(reply->header("Connection").empty());
  }
}
