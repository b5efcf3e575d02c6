// Starting, refusing connections, running out of descriptors, and shutting down, over real sockets.
// What one connection does is in session_test.cpp.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/server/http/http_fixture.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;
using namespace mme::test;
using namespace std::chrono_literals;

namespace {

std::string slow(int ms) {
  return post_request("/slow?ms=" + std::to_string(ms), "");
}

Router make_router() {
  return *Router::make({make_test_dialect(std::make_shared<Seen>())});
}

bool can_connect(std::uint16_t port) {
  try {
    RawHttpClient client(port);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("a port that is taken is an error in one line") {
  HttpFixture first;
  boost::asio::io_context io;
  Server second(io, {}, make_router(), {});
  const auto port = second.start("127.0.0.1", first.port());
  REQUIRE(!port);
  CHECK(port.error().code == ErrorCode::conflict);
  CHECK(port.error().message.find("Address already in use") != std::string::npos);
}

TEST_CASE("an address that is none is an error") {
  boost::asio::io_context io;
  Server server(io, {}, make_router(), {});
  for (const char* bad : {"nowhere.example", "", "300.1.1.1", "127.0.0.1:80"}) {
    INFO(bad);
    const auto port = server.start(bad, 0);
    REQUIRE(!port);
    CHECK(port.error().code == ErrorCode::invalid_request);
  }
}

TEST_CASE("a listener on all addresses takes any Host, a loopback one only its own") {
  const std::string request = "GET /ping HTTP/1.1\r\nHost: models.example\r\n\r\n";
  SECTION("all addresses") {
    FixtureOptions options;
    options.address = "0.0.0.0";
    HttpFixture server(options);
    auto client = server.client();
    client.send(request);
    CHECK(client.read_status() == 200);
  }
  SECTION("loopback") {
    HttpFixture server;
    auto client = server.client();
    client.send(request);
    const auto reply = client.read();
    CHECK(reply->status == 403);
    CHECK(reply->header("X-MME-Reason") == "forbidden");
  }
  SECTION("loopback with the check off") {
    FixtureOptions options;
    options.http.check_loopback_host = false;
    HttpFixture server(options);
    auto client = server.client();
    client.send(request);
    CHECK(client.read_status() == 200);
  }
}

TEST_CASE("connections over the limit get 503 and those before them live") {
  FixtureOptions options;
  options.http.limits.connections = 3;
  HttpFixture server(options);
  std::vector<RawHttpClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(server.client());
    clients.back().send(kPingRequest);
    CHECK(clients.back().read_status() == 200);
  }
  for (int i = 0; i < 5; ++i) {
    auto client = server.client();
    client.send(kPingRequest);
    const auto reply = client.read();
    REQUIRE(reply);
    CHECK(reply->status == 503);
    CHECK(client.closed());
  }
  CHECK(server.server().counts().refused_connections == 5);
  clients.pop_back();
  CHECK(eventually([&] { return server.server().counts().connections == 2; }));
  auto client = server.client();
  client.send(kPingRequest);
  CHECK(client.read_status() == 200);
}

TEST_CASE("when descriptors run out the listener waits, and goes on when there are some again") {
  HttpFixture server;
  auto before = server.client();
  before.send(kPingRequest);
  CHECK(before.read_status() == 200);
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &old) == 0);
  // The client's end needs a descriptor too: take all but one.
  const rlimit few{64, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::vector<int> taken;
  for (int fd = dup(0); fd >= 0; fd = dup(0)) taken.push_back(fd);
  REQUIRE(!taken.empty());
  close(taken.back());
  taken.pop_back();
  auto waiting = server.client(300ms);
  waiting.send(kPingRequest);
  CHECK(!waiting.read());
  before.send(kPingRequest);
  CHECK(before.read_status() == 200);
  for (const int fd : taken) close(fd);
  setrlimit(RLIMIT_NOFILE, &old);
  CHECK(eventually([&] { return waiting.read().has_value(); }));
}

TEST_CASE("limits that are replaced hold for the next request, on open connections too") {
  FixtureOptions options;
  options.http.limits.connections = 2;
  HttpFixture fixture(options);
  auto open = fixture.client();
  open.send(post_request("/echo/a", std::string(2000, 'x')));
  CHECK(open.read_status() == 200);
  options.http.limits.body = 1000;
  options.http.limits.connections = 1;
  options.http.timeouts.request = 77s;
  fixture.server().set_options(options.http);
  open.send(get_request("/deadline"));
  const auto deadline = open.read();
  REQUIRE(deadline);
  CHECK(std::stoi(deadline->body) > 60'000);
  CHECK(fixture.client().read_status() == 503);  // the open one is all there may be
  open.send(post_request("/echo/a", std::string(2000, 'x')));
  CHECK(open.read_status() == 413);
}

TEST_CASE("drain closes idle connections at once and lets running requests end") {
  HttpFixture server;
  auto idle = server.client();
  idle.send(kPingRequest);
  CHECK(idle.read_status() == 200);
  auto busy = server.client();
  busy.send(slow(150) + kPingRequest);
  REQUIRE(eventually([&] { return server.seen().handled == 2; }));
  const auto done = server.drain(30s);
  CHECK(idle.closed());
  const auto reply = busy.read();
  REQUIRE(reply);
  CHECK(reply->status == 200);
  CHECK(reply->header("Connection") == "close");
  CHECK(busy.closed());
  CHECK(busy.rest().empty());
  CHECK(eventually([&] { return done->load(); }));
  CHECK(!can_connect(server.port()));
}

TEST_CASE("what the kernel had accepted before the drain is answered") {
  HttpFixture server;
  auto busy = server.client();
  busy.send(slow(100));
  REQUIRE(eventually([&] { return server.seen().handled == 1; }));
  std::vector<RawHttpClient> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(server.client());
  const auto done = server.drain(30s);
  for (auto& client : clients) client.send(kPingRequest);
  for (auto& client : clients) {
    const auto reply = client.read();
    REQUIRE(reply);
    CHECK(reply->status == 200);
    CHECK(reply->header("Connection") == "close");
  }
  CHECK(eventually([&] { return done->load(); }));
}

TEST_CASE("a request that outlasts the drain gets 503 shutting_down") {
  HttpFixture server;
  auto client = server.client();
  client.send(slow(60'000));
  REQUIRE(eventually([&] { return server.seen().handled == 1; }));
  const auto done = server.drain(50ms);
  const auto reply = client.read();
  REQUIRE(reply);
  CHECK(reply->status == 503);
  CHECK(reply->header("X-MME-Reason") == "shutting_down");
  CHECK(eventually([&] { return done->load(); }));
  CHECK(server.seen().cancelled == 1);
}

TEST_CASE("clients in every state do not hold the drain up") {
  HttpFixture server;
  auto fresh = server.client();
  auto in_head = server.client();
  in_head.send("GET /pi");
  auto in_body = server.client();
  in_body.send("POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
  auto in_reply = server.client();
  in_reply.send("GET /big?bytes=30000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  REQUIRE(eventually([&] { return server.seen().handled == 1; }));
  const auto done = server.drain(50ms);
  CHECK(in_head.read_status() == 503);
  CHECK(in_body.read_status() == 503);
  CHECK(eventually([&] { return done->load(); }));
  CHECK(server.server().counts().connections == 0);
}

TEST_CASE("a server that is destroyed while requests run leaves nothing behind") {
  for (int i = 0; i < 20; ++i) {
    HttpFixture server;
    auto client = server.client();
    client.send(slow(60'000) + kPingRequest);
    auto half = server.client();
    half.send("GET /p");
  }
}
