// Runs the table of attacks against one server over loopback.
// The cases are in attacks.inc; here is only what must hold for every one of them.
#include <string>
#include <vector>

#include "tests/server/http/http_fixture.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;
using namespace mme::test;
using namespace std::string_literals;
using namespace std::chrono_literals;

namespace {

#define HOST "Host: localhost\r\n"
#define PING "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define PING_SIZE "39"
#define PING_HEX "27"
static_assert(sizeof PING - 1 == 39);

std::string many(const std::string& text, int times) {
  std::string all;
  all.reserve(text.size() * static_cast<std::size_t>(times));
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\n" HOST "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string chunked(const std::string& path, const std::string& chunks) {
  return "POST " + path + " HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n" + chunks;
}

/// An empty body in chunks, under another name for the coding.
std::string coded(const std::string& coding) {
  return "POST /echo/a HTTP/1.1\r\n" HOST "Transfer-Encoding: " + coding + "\r\n\r\n0\r\n\r\n";
}

/// A request whose header lines, blank line included, have that many bytes.
std::string head_of(std::size_t bytes) {
  const std::string known = HOST "X: \r\n\r\n";
  return "GET /ping HTTP/1.1\r\n" HOST "X: " + std::string(bytes - known.size(), 'a') + "\r\n\r\n";
}

struct Attack {
  std::string name;
  std::string bytes;
  std::vector<unsigned> statuses;
};

const std::vector<Attack>& attacks() {
  static const std::vector<Attack> all{
#include "tests/server/http/attacks.inc"
  };
  return all;
}

FixtureOptions small_bodies() {
  FixtureOptions options;
  options.http.limits.body = 1 << 20;
  return options;
}

/// The client may be cut while it still sends; what was answered until then is what counts.
std::vector<RawReply> attack(const HttpFixture& server, const std::string& bytes) {
  auto client = server.client();
  client.send(bytes);
  client.half_close();
  auto replies = client.read_all(30s);
  CHECK(client.rest().empty());
  CHECK(client.closed());
  return replies;
}

}  // namespace

TEST_CASE("no attack gets more answers than requests, or an answer to a hidden request") {
  HttpFixture server(small_bodies());
  for (const auto& [name, bytes, statuses] : attacks()) {
    INFO(name);
    const int before = server.seen().handled;
    std::vector<unsigned> got;
    int good = 0;
    for (const auto& reply : attack(server, bytes)) {
      if (reply.status == 100) continue;
      got.push_back(reply.status);
      good += reply.status == 200 ? 1 : 0;
      CHECK(!reply.header("X-Request-Id").empty());
      CHECK(reply.header("X-MME-Reason").empty() == (reply.status == 200));
      CHECK(reply.header("Set-Cookie").empty());
    }
    CHECK(got == statuses);
    // A request that was run and not answered would be as bad as one answered and not sent.
    CHECK(server.seen().handled - before == good);
  }
}

TEST_CASE("every attack, cut into single bytes, gets the same answers") {
  HttpFixture server(small_bodies());
  for (const auto& [name, bytes, statuses] : attacks()) {
    if (bytes.size() > 400) continue;
    INFO(name);
    auto client = server.client();
    for (const char byte : bytes) client.send({&byte, 1});
    client.half_close();
    std::vector<unsigned> got;
    for (const auto& reply : client.read_all(30s)) {
      if (reply.status != 100) got.push_back(reply.status);
    }
    CHECK(got == statuses);
  }
}

TEST_CASE("each attack leaves one access line per answer") {
  HttpFixture server(small_bodies());
  std::size_t answers = 0;
  for (const auto& [name, bytes, statuses] : attacks()) {
    attack(server, bytes);
    answers += statuses.size();
  }
  CHECK(eventually([&] { return server.lines().size() == answers; }));
  for (const auto& line : server.lines()) {
    std::string json = "{";
    append_access(json, line);
    for (const char c : json) CHECK((static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
  }
}
