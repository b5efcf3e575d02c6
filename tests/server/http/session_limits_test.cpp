// What a connection may cost, over a real socket: time-outs, sizes, and room in the budget.
// What it does when all is well is in session_test.cpp.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "tests/server/http/http_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/counted_budget.hpp"

using namespace mme;
using namespace mme::server;
using namespace mme::test;
using namespace std::chrono_literals;

namespace {

// Each test shortens only the time that it is about, so that a slow machine does not run into another one.
FixtureOptions short_header() {
  FixtureOptions options;
  options.http.timeouts.header = 500ms;
  return options;
}

FixtureOptions short_idle() {
  FixtureOptions options;
  options.http.timeouts.body_idle = 200ms;
  options.http.timeouts.write_idle = 200ms;
  options.http.timeouts.keep_alive = 200ms;
  return options;
}

}  // namespace

TEST_CASE("a refused upload is answered and closed without a reset that could overtake the answer") {
  FixtureOptions options;
  options.http.limits.body = 1000;
  HttpFixture server(options);
  for (int i = 0; i < 20; ++i) {
    auto client = server.client();
    client.send(post_request("/echo/a", std::string(100'000, 'x')));
    CHECK(client.read_status() == 413);
    client.half_close();
    CHECK(client.closed());
    CHECK_FALSE(client.was_reset());
  }
}

TEST_CASE("a slow header is answered 408 and cut") {
  HttpFixture server(short_header());
  auto client = server.client();
  client.send("GET /ping HTT");
  const auto reply = client.read();
  REQUIRE(reply);
  CHECK(reply->status == 408);
  CHECK(reply->header("X-MME-Reason") == "read_timeout");
  CHECK(client.closed());
}

TEST_CASE("a header that drips in is cut by its total time") {
  HttpFixture server(short_header());
  auto client = server.client();
  bool open = true;
  for (int i = 0; i < 100 && open; ++i) {
    open = client.send("X");
    std::this_thread::sleep_for(10ms);
  }
  CHECK(client.read_status() == 408);
}

TEST_CASE("a slow body is answered 408 and cut") {
  HttpFixture server(short_idle());
  auto client = server.client();
  client.send("POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
  CHECK(client.read_status() == 408);
  CHECK(client.closed());
}

TEST_CASE("a body that drips in is cut by the deadline of its request") {
  FixtureOptions options;
  options.http.timeouts.request = 150ms;
  HttpFixture server(options);
  auto client = server.client();
  client.send("POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 100 && client.send("x"); ++i) std::this_thread::sleep_for(5ms);
  CHECK(client.read_status() == 408);
}

TEST_CASE("a connection without a request is closed without a word") {
  HttpFixture server(short_header());
  auto client = server.client();
  CHECK(client.closed());
  CHECK(client.rest().empty());
  CHECK(server.lines().empty());
}

TEST_CASE("an idle connection is closed after the keep-alive time") {
  HttpFixture server(short_idle());
  auto client = server.client();
  client.send(kPingRequest);
  CHECK(client.read_status() == 200);
  CHECK(client.closed());
  CHECK(client.rest().empty());
}

TEST_CASE("a client that does not read its answer is cut") {
  HttpFixture server(short_idle());
  auto client = server.client();
  client.send(get_request("/big?bytes=30000000"));
  REQUIRE(eventually([&] { return server.lines().size() == 1; }));
  CHECK(server.lines()[0].bytes_out < 30'000'000);
  CHECK(eventually([&] { return server.server().counts().connections == 0; }));
}

TEST_CASE("a reply over the limit becomes a declared refusal") {
  FixtureOptions options;
  options.http.limits.response = 1000;
  HttpFixture server(options);
  auto client = server.client();
  client.send(get_request("/big?bytes=1001"));
  CHECK(client.read_status() == 413);
  client.send(get_request("/big?bytes=1000"));
  CHECK(client.read_body().size() == 1000);
}

TEST_CASE("bodies above the free size are charged while they are held, and refused when there is no room") {
  mme::test::CountedBudget budget(1'000'000);
  FixtureOptions options;
  options.claim = budget.claim();
  HttpFixture server(options);
  auto client = server.client();
  const auto all_back = [&] { return eventually([&] { return budget.used() == 0; }); };
  SECTION("small ones are free") {
    client.send(post_request("/slow", std::string(60'000, 'x')));
    CHECK(client.read_status() == 200);
    CHECK(budget.peak() == 0);
  }
  SECTION("large ones are charged until the answer") {
    client.send(post_request("/slow?ms=60000", std::string(200'000, 'x')));
    REQUIRE(eventually([&] { return server.seen().handled == 1; }));
    CHECK(budget.used() == 200'000);
    client.reset();
    CHECK(all_back());
  }
  SECTION("chunked ones are charged as they grow") {
    std::string chunks;
    for (int i = 0; i < 50; ++i) chunks += "1000\r\n" + std::string(0x1000, 'x') + "\r\n";
    client.send("POST /slow HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n");
    CHECK(client.read_status() == 200);
    CHECK(budget.peak() >= 200'000);
    CHECK(all_back());
  }
  SECTION("no room: 507 before the body is read") {
    client.send("POST /echo/a HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000001\r\n\r\n");
    const auto reply = client.read();
    REQUIRE(reply);
    CHECK(reply->status == 507);
    CHECK(reply->header("X-MME-Reason") == "all_in_use");
    CHECK(budget.peak() == 0);
  }
  SECTION("a reply is charged while it is sent") {
    client.send(get_request("/big?bytes=500000"));
    CHECK(client.read_body().size() == 500'000);
    CHECK(budget.peak() >= 500'000);
    CHECK(all_back());
  }
  SECTION("no room for a reply") {
    client.send(get_request("/big?bytes=1000001"));
    CHECK(client.read_status() == 507);
    CHECK(budget.peak() == 0);
  }
}
