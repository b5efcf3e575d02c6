// The life of a connection, over a real socket: answers in order, clients that leave, handlers that fail.
// Limits and time-outs are in session_limits_test.cpp, framing attacks in attacks_test.cpp, shutdown in
// server_test.cpp.
#include <atomic>
#include <string>
#include <thread>

#include "tests/server/http/http_fixture.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;
using namespace mme::test;
using namespace std::chrono_literals;

TEST_CASE("a request is answered and the connection stays open for the next") {
  HttpFixture server;
  auto client = server.client();
  for (int i = 0; i < 3; ++i) {
    client.send(post_request("/echo/a%20b", "hello"));
    const auto reply = client.read();
    REQUIRE(reply);
    CHECK(reply->status == 200);
    CHECK(reply->body == "a b:hello");
    CHECK(reply->header("Content-Length") == "9");
    CHECK(reply->header("X-Request-Id").size() == 32);
    CHECK(reply->header("Date").ends_with(" GMT"));
    CHECK(reply->header("Connection").empty());
  }
}

TEST_CASE("pipelined requests are answered in order, slow ones first when they came first") {
  HttpFixture server;
  auto client = server.client();
  client.send(post_request("/slow?ms=60", "") + get_request("/echo/1") + get_request("/echo/2") +
              get_request("/echo/3"));
  CHECK(client.read_body() == "slow");
  CHECK(client.read_body() == "1:");
  CHECK(client.read_body() == "2:");
  CHECK(client.read_body() == "3:");
  CHECK(server.seen().cancelled == 0);
}

TEST_CASE("more pipelined requests than are read ahead are all answered") {
  HttpFixture server;
  auto client = server.client();
  std::string many = post_request("/slow?ms=50", "");
  const int count = 3000;  // about 120 KB
  for (int i = 0; i < count; ++i) many += kPingRequest;
  std::thread sender([&] { client.send(many); });
  CHECK(client.read_body() == "slow");
  int answers = 0;
  while (answers < count && client.read()) ++answers;
  sender.join();
  CHECK(answers == count);
}

TEST_CASE("behind a broken head nothing is answered any more") {
  HttpFixture server;
  auto client = server.client();
  client.send(kPingRequest + "BROKEN\r\n\r\n" + kPingRequest);
  CHECK(client.read_status() == 200);
  CHECK(client.read_status() == 400);
  REQUIRE(client.closed());
  CHECK(client.rest().empty());
  CHECK(server.seen().handled == 1);
}

TEST_CASE("HEAD gets the headers of GET and no body") {
  HttpFixture server;
  auto client = server.client();
  client.send("HEAD /big?bytes=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n" + get_request("/echo/x"));
  const auto reply = client.read(true);
  REQUIRE(reply);
  CHECK(reply->status == 200);
  CHECK(reply->header("Content-Length") == "1000");
  CHECK(client.read_body() == "x:");
}

TEST_CASE("HEAD of an unknown path is a 404 without a body") {
  HttpFixture server;
  auto client = server.client();
  client.send("HEAD /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n" + get_request("/echo/x"));
  CHECK(client.read_status(true) == 404);
  CHECK(client.read_body() == "x:");
}

TEST_CASE("a request id of the client is echoed, any other is replaced") {
  HttpFixture server;
  auto client = server.client();
  client.send(get_request("/ping", "X-Request-Id: job-7:a.b_C\r\n"));
  CHECK(client.read()->header("X-Request-Id") == "job-7:a.b_C");
  for (const std::string bad : {"a b", "\"x\"", "", "a/b"}) {
    client.send(get_request("/ping", "X-Request-Id: " + bad + "\r\n"));
    CHECK(client.read()->header("X-Request-Id").size() == 32);
  }
  client.send(get_request("/ping", "X-Request-Id: " + std::string(129, 'a') + "\r\n"));
  CHECK(client.read()->header("X-Request-Id").size() == 32);
}

TEST_CASE("the deadline is the setting, lowered by X-Request-Timeout-Ms and never raised by it") {
  FixtureOptions options;
  options.http.timeouts.request = 20s;
  HttpFixture server(options);
  auto client = server.client();
  const auto left = [&](const std::string& header) {
    client.send(get_request("/deadline", header));
    return std::stol(client.read_body());
  };
  CHECK(left("") > 10'000);
  CHECK(left("X-Request-Timeout-Ms: 1500\r\n") <= 1500);
  CHECK(left("X-Request-Timeout-Ms: 900000\r\n") <= 20'000);
}

TEST_CASE("100-continue is sent before the body and only for a body that will be taken") {
  FixtureOptions options;
  options.http.limits.body = 1000;
  HttpFixture server(options);
  const std::string expect = "POST /echo/a HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ";
  SECTION("taken") {
    auto client = server.client();
    client.send(expect + "3\r\n\r\n");
    CHECK(client.read_status() == 100);
    client.send("abc");
    CHECK(client.read_body() == "a:abc");
  }
  SECTION("too large: the answer comes without the body, and the connection ends") {
    auto client = server.client();
    client.send(expect + "1001\r\n\r\n");
    const auto reply = client.read();
    CHECK(reply->status == 413);
    CHECK(reply->header("Connection") == "close");
    CHECK(client.closed());
  }
  SECTION("unknown path") {
    auto client = server.client();
    client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    CHECK(client.read_status() == 404);
    CHECK(client.closed());
  }
}

TEST_CASE("a client that leaves cancels its request") {
  HttpFixture server;
  auto client = server.client();
  client.send(post_request("/slow?ms=60000", ""));
  REQUIRE(eventually([&] { return server.seen().handled == 1; }));
  SECTION("by closing") {
    client.close();
  }
  SECTION("by a reset") {
    client.reset();
  }
  SECTION("with a further request behind") {
    client.send(kPingRequest);
    client.reset();
  }
  CHECK(eventually([&] { return server.seen().cancelled == 1; }));
  REQUIRE(eventually([&] { return server.lines().size() == 1; }));
  CHECK(server.lines()[0].status == kClientGone);
  CHECK(eventually([&] { return server.server().counts().connections == 0; }));
}

TEST_CASE("a client that leaves within its body leaves nothing behind") {
  HttpFixture server;
  auto client = server.client();
  client.send("POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nabc");
  client.reset();
  CHECK(eventually([&] { return server.lines().size() == 1; }));
  CHECK(eventually([&] { return server.server().counts().connections == 0; }));
  CHECK(server.seen().handled == 0);
}

TEST_CASE("a handler that throws is a 500 that tells nothing, and the connection lives") {
  HttpFixture server;
  auto client = server.client();
  client.send(get_request("/throw"));
  const auto reply = client.read();
  CHECK(reply->status == 500);
  CHECK(reply->header("X-MME-Reason") == "internal");
  CHECK(reply->body == "test: an internal error");
  REQUIRE(eventually([&] { return server.lines().size() == 1; }));
  CHECK(server.lines()[0].record.fault == "secret detail of /srv/models");
  client.send(kPingRequest);
  CHECK(client.read_status() == 200);
}

TEST_CASE("a handler's own error gets its reason and Retry-After") {
  HttpFixture server;
  auto client = server.client();
  client.send(get_request("/fail"));
  const auto reply = client.read();
  CHECK(reply->status == 429);
  CHECK(reply->header("X-MME-Reason") == "queue_full");
  CHECK(reply->header("Retry-After") == "1");
}

TEST_CASE("the access line tells what happened") {
  HttpFixture server;
  auto client = server.client();
  client.send(post_request("/echo/na%22me?secret=1", "hello", "X-Request-Id: r1\r\n"));
  CHECK(client.read_status() == 200);
  REQUIRE(eventually([&] { return server.lines().size() == 1; }));
  const auto line = server.lines()[0];
  CHECK(line.method == "POST");
  CHECK(line.path == "/echo/na%22me");
  CHECK(line.status == 200);
  CHECK(line.bytes_in == 5);
  CHECK(line.bytes_out == 11);
  CHECK(line.request_id == "r1");
  CHECK(line.record.dialect == "test");
  CHECK(line.record.reason.empty());
}

TEST_CASE("many clients on several threads are all answered, some of them leaving") {
  FixtureOptions options;
  options.threads = 2;
  HttpFixture server(options);
  std::vector<std::thread> clients;
  std::atomic<int> answers{0};
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 30; ++i) {
        auto client = server.client();
        client.send(post_request("/slow?ms=" + std::to_string(i % 4), "x") + kPingRequest);
        if ((c + i) % 5 == 0) {
          client.reset();
          continue;
        }
        answers += client.read() && client.read() ? 1 : 0;
      }
    });
  }
  for (auto& thread : clients) thread.join();
  CHECK(answers == 8 * 30 * 4 / 5);
  CHECK(eventually([&] { return server.server().counts().connections == 0; }));
}
