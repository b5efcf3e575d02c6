// The life of a connection, over a real socket: answers, time-outs, limits, clients that leave.
// Framing attacks are in attacks_test.cpp, shutdown in server_test.cpp.
#include <atomic>
#include <string>

#include "tests/server/http/http_fixture.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;
using namespace mme::test;
using namespace std::chrono_literals;

namespace {

const std::string kPing = "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string get(const std::string& target, const std::string& more = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

std::string post(const std::string& path, const std::string& body, const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

FixtureOptions short_times() {
  FixtureOptions options;
  options.http.timeouts.header = 100ms;
  options.http.timeouts.body_idle = 100ms;
  options.http.timeouts.write_idle = 100ms;
  options.http.timeouts.keep_alive = 100ms;
  return options;
}

/// Room for bodies that counts what is held.
struct Room : loader::MemoryGrant {
  Room(std::atomic<std::size_t>& u, std::size_t l) : used(u), limit(l) {}
  ~Room() override { used -= held; }
  bool grow(std::size_t bytes) noexcept override {
    if (used + bytes > limit) return false;
    used += bytes;
    held += bytes;
    return true;
  }
  void shrink(std::size_t bytes) noexcept override {
    used -= bytes;
    held -= bytes;
  }
  void keep(std::size_t) noexcept override {}
  std::atomic<std::size_t>& used;
  std::size_t limit;
  std::size_t held = 0;
};

BodyClaim claim_from(std::atomic<std::size_t>& used, std::size_t limit) {
  return [&used, limit](std::size_t bytes) -> std::shared_ptr<loader::MemoryGrant> {
    auto room = std::make_shared<Room>(used, limit);
    return room->grow(bytes) ? room : nullptr;
  };
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
    CHECK(reply->header("Date").ends_with(" GMT"));
    CHECK(reply->header("Connection").empty());
  }
}

TEST_CASE("pipelined requests are answered in order, slow ones first when they came first") {
  HttpFixture server;
  auto client = server.client();
  client.send(post("/slow?ms=60", "") + get("/echo/1") + get("/echo/2") + get("/echo/3"));
  CHECK(client.read()->body == "slow");
  CHECK(client.read()->body == "1:");
  CHECK(client.read()->body == "2:");
  CHECK(client.read()->body == "3:");
  CHECK(server.seen().cancelled == 0);
}

TEST_CASE("more pipelined requests than are read ahead are all answered") {
  HttpFixture server;
  auto client = server.client();
  std::string many = post("/slow?ms=50", "");
  const int count = 3000;  // about 120 KB
  for (int i = 0; i < count; ++i) many += kPing;
  std::thread sender([&] { client.send(many); });
  CHECK(client.read()->body == "slow");
  int answers = 0;
  while (answers < count && client.read()) ++answers;
  sender.join();
  CHECK(answers == count);
}

TEST_CASE("HEAD gets the headers of GET and no body") {
  HttpFixture server;
  auto client = server.client();
  client.send("HEAD /big?bytes=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/echo/x"));
  const auto reply = client.read(true);
  REQUIRE(reply);
  CHECK(reply->status == 200);
  CHECK(reply->header("Content-Length") == "1000");
  CHECK(client.read()->body == "x:");
}

TEST_CASE("HEAD of an unknown path is a 404 without a body") {
  HttpFixture server;
  auto client = server.client();
  client.send("HEAD /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/echo/x"));
  CHECK(client.read(true)->status == 404);
  CHECK(client.read()->body == "x:");
}

TEST_CASE("a request id of the client is echoed, any other is replaced") {
  HttpFixture server;
  auto client = server.client();
  client.send(get("/ping", "X-Request-Id: job-7:a.b_C\r\n"));
  CHECK(client.read()->header("X-Request-Id") == "job-7:a.b_C");
  for (const std::string bad : {"a b", "\"x\"", "", "a/b"}) {
    client.send(get("/ping", "X-Request-Id: " + bad + "\r\n"));
    CHECK(client.read()->header("X-Request-Id").size() == 32);
  }
  client.send(get("/ping", "X-Request-Id: " + std::string(129, 'a') + "\r\n"));
  CHECK(client.read()->header("X-Request-Id").size() == 32);
}

TEST_CASE("the deadline is the setting, lowered by X-Request-Timeout-Ms and never raised by it") {
  FixtureOptions options;
  options.http.timeouts.request = 20s;
  HttpFixture server(options);
  auto client = server.client();
  const auto left = [&](const std::string& header) {
    client.send(get("/deadline", header));
    return std::stol(client.read()->body);
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
    CHECK(client.read()->status == 100);
    client.send("abc");
    CHECK(client.read()->body == "a:abc");
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
    CHECK(client.read()->status == 404);
    CHECK(client.closed());
  }
}

TEST_CASE("the answer to a refused upload arrives although the client is still sending") {
  FixtureOptions options;
  options.http.limits.body = 1000;
  HttpFixture server(options);
  for (int i = 0; i < 20; ++i) {
    auto client = server.client();
    client.send("POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n");
    client.send(std::string(2'000'000, 'x'));
    const auto reply = client.read();
    REQUIRE(reply);
    CHECK(reply->status == 413);
  }
}

TEST_CASE("a slow header is answered 408 and cut") {
  HttpFixture server(short_times());
  auto client = server.client();
  client.send("GET /ping HTT");
  const auto reply = client.read();
  REQUIRE(reply);
  CHECK(reply->status == 408);
  CHECK(reply->header("X-MME-Reason") == "read_timeout");
  CHECK(client.closed());
}

TEST_CASE("a header that drips in is cut by its total time") {
  HttpFixture server(short_times());
  auto client = server.client();
  bool open = true;
  for (int i = 0; i < 100 && open; ++i) {
    open = client.send("X");
    std::this_thread::sleep_for(10ms);
  }
  CHECK(client.read()->status == 408);
}

TEST_CASE("a slow body is answered 408 and cut") {
  HttpFixture server(short_times());
  auto client = server.client();
  client.send("POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
  CHECK(client.read()->status == 408);
  CHECK(client.closed());
}

TEST_CASE("a body that drips in is cut by the deadline of its request") {
  FixtureOptions options;
  options.http.timeouts.request = 150ms;
  HttpFixture server(options);
  auto client = server.client();
  client.send("POST /echo/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 100 && client.send("x"); ++i) std::this_thread::sleep_for(5ms);
  CHECK(client.read()->status == 408);
}

TEST_CASE("a connection without a request is closed without a word") {
  HttpFixture server(short_times());
  auto client = server.client();
  CHECK(client.closed());
  CHECK(client.rest().empty());
  CHECK(server.lines().empty());
}

TEST_CASE("an idle connection is closed after the keep-alive time") {
  HttpFixture server(short_times());
  auto client = server.client();
  client.send(kPing);
  CHECK(client.read()->status == 200);
  CHECK(client.closed());
  CHECK(client.rest().empty());
}

TEST_CASE("a client that does not read its answer is cut") {
  HttpFixture server(short_times());
  auto client = server.client();
  client.send(get("/big?bytes=100000000"));
  CHECK(eventually([&] { return server.server().counts().connections == 0; }));
  REQUIRE(eventually([&] { return server.lines().size() == 1; }));
  CHECK(server.lines()[0].bytes_out < 100'000'000);
}

TEST_CASE("a client that leaves cancels its request") {
  HttpFixture server;
  auto client = server.client();
  client.send(post("/slow?ms=60000", ""));
  REQUIRE(eventually([&] { return server.seen().handled == 1; }));
  SECTION("by closing") {
    client.close();
  }
  SECTION("by a reset") {
    client.reset();
  }
  SECTION("with a further request behind") {
    client.send(kPing);
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
  CHECK(eventually([&] { return server.server().counts().connections == 0; }));
  CHECK(server.seen().handled == 0);
}

TEST_CASE("a handler that throws is a 500 that tells nothing, and the connection lives") {
  HttpFixture server;
  auto client = server.client();
  client.send(get("/throw"));
  const auto reply = client.read();
  CHECK(reply->status == 500);
  CHECK(reply->header("X-MME-Reason") == "internal");
  CHECK(reply->body == "test: an internal error");
  client.send(kPing);
  CHECK(client.read()->status == 200);
}

TEST_CASE("a handler's own error gets its reason and Retry-After") {
  HttpFixture server;
  auto client = server.client();
  client.send(get("/fail"));
  const auto reply = client.read();
  CHECK(reply->status == 429);
  CHECK(reply->header("X-MME-Reason") == "queue_full");
  CHECK(reply->header("Retry-After") == "1");
}

TEST_CASE("a reply over the limit becomes a declared refusal") {
  FixtureOptions options;
  options.http.limits.response = 1000;
  HttpFixture server(options);
  auto client = server.client();
  client.send(get("/big?bytes=1001"));
  CHECK(client.read()->status == 413);
  client.send(get("/big?bytes=1000"));
  CHECK(client.read()->body.size() == 1000);
}

TEST_CASE("bodies above the free size are charged while they are held, and refused when there is no room") {
  std::atomic<std::size_t> used{0};
  FixtureOptions options;
  options.claim = claim_from(used, 1'000'000);
  HttpFixture server(options);
  auto client = server.client();
  SECTION("small ones are free") {
    client.send(post("/slow?ms=50", std::string(60'000, 'x')));
    REQUIRE(eventually([&] { return server.seen().handled == 1; }));
    CHECK(used == 0);
  }
  SECTION("large ones are charged until the answer") {
    client.send(post("/slow?ms=50", std::string(200'000, 'x')));
    REQUIRE(eventually([&] { return server.seen().handled == 1; }));
    CHECK(used >= 200'000);
    CHECK(client.read()->status == 200);
    CHECK(eventually([&] { return used == 0; }));
  }
  SECTION("chunked ones are charged as they grow") {
    std::string chunks;
    for (int i = 0; i < 50; ++i) chunks += "1000\r\n" + std::string(0x1000, 'x') + "\r\n";
    client.send("POST /slow?ms=50 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks +
                "0\r\n\r\n");
    REQUIRE(eventually([&] { return server.seen().handled == 1; }));
    CHECK(used >= 200'000);
    CHECK(client.read()->status == 200);
    CHECK(eventually([&] { return used == 0; }));
  }
  SECTION("no room: 507 before the body is read") {
    client.send("POST /echo/a HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000001\r\n\r\n");
    const auto reply = client.read();
    CHECK(reply->status == 507);
    CHECK(reply->header("X-MME-Reason") == "all_in_use");
    CHECK(used == 0);
  }
  SECTION("no room for a reply") {
    client.send(get("/big?bytes=1000001"));
    CHECK(client.read()->status == 507);
    CHECK(used == 0);
  }
}

TEST_CASE("the access line tells what happened") {
  HttpFixture server;
  auto client = server.client();
  client.send(post("/echo/na%22me?secret=1", "hello", "X-Request-Id: r1\r\n"));
  CHECK(client.read()->status == 200);
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
        client.send(post("/slow?ms=" + std::to_string(i % 4), "x") + kPing);
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
