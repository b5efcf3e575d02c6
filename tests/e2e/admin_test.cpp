// Who may call what on the real server: the token, the Host check, and every way around them that was ever tried.
// Then the HTTP bug reports of other servers, against ours as it is started.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <thread>

#include "tests/e2e/oip.hpp"
#include "tests/e2e/scenario.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/raw_http_client.hpp"
#include "tests/support/together.hpp"

using namespace mme::test;
using namespace std::chrono_literals;

namespace {

const std::map<std::string, std::string> kToken{{"MME_ADMIN_TOKEN", "open-sesame"}};
const HttpClient::Headers kRight{{"Authorization", "Bearer open-sesame"}};

/// A server with one model, `m`.
struct Served {
  explicit Served(const std::string& stem = "echo", std::vector<std::string> arguments = {},
                  const std::map<std::string, std::string>& environment = {}) {
    install(repository.path(), {{"m", stem}, {"echo", "echo"}});
    server.emplace(repository.path(), std::move(arguments), environment);
  }
  /// Sends bytes on a new connection and gives the first answer back.
  [[nodiscard]] RawReply raw(const std::string& bytes, bool head = false) const {
    RawHttpClient client(server->port());
    client.send(bytes);
    auto reply = client.read(head);
    return reply ? *reply : RawReply{};
  }
  [[nodiscard]] unsigned status(const std::string& bytes) const { return raw(bytes).status; }

  TempDir repository;
  std::optional<ServerProcess> server;
};

std::string request(const std::string& method, const std::string& target, const std::string& headers = "",
                    const std::string& body = "") {
  return method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
         (body.empty() && method == "GET" ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") + "\r\n" +
         body;
}

std::string infer_request(const std::string& model, const std::string& headers = "") {
  return request("POST", "/v2/models/" + model + "/infer", headers, two_floats().dump());
}

double cost_of_a_call(const ServerProcess& server) {
  auto client = server.client();
  const double before = cpu_seconds(server.pid());
  for (int i = 0; i < 5; ++i) CHECK(infer(client, "m").status == 200);
  return std::max(0.002, (cpu_seconds(server.pid()) - before) / 5);
}

struct Call {
  const char* method;
  const char* target;
};
const Call kAdminCalls[] = {{"POST", "/admin/reload"},
                            {"PUT", "/admin/budget"},
                            {"GET", "/status"},
                            {"GET", "/repository/models"},
                            {"POST", "/models"},
                            {"DELETE", "/models/m"},
                            {"POST", "/v2/repository/models/m/load"},
                            {"POST", "/v2/repository/models/m/unload"}};

}  // namespace

TEST_CASE("with a token every admin call needs it, and no other call does", "[admin]") {
  Served it("echo", {}, kToken);
  auto client = it.server->client();
  for (const auto& [method, target] : kAdminCalls) {
    INFO(method << " " << target);
    const auto without = client.send(method, target);
    CHECK(without.status == 401);
    CHECK(without.header("X-MME-Reason") == "unauthorized");
    CHECK(without.header("WWW-Authenticate") == "Bearer");
    CHECK(client.send(method, target, "", {{"Authorization", "Bearer open-sesam"}}).status == 401);
    CHECK(client.send(method, target, "", {{"Authorization", "Bearer open-sesame "}, {"X", "y"}}).status != 500);
    CHECK(client.send(method, target, "", {{"Authorization", "Basic open-sesame"}}).status == 401);
    CHECK(client.send(method, target, "", {{"Authorization", "Bearer"}}).status == 401);
    CHECK(client.send(method, target, "", {{"Authorization", "open-sesame"}}).status == 401);
    CHECK(client.send(method, target, "", {{"X-Authorization", "Bearer open-sesame"}}).status == 401);
    CHECK(client.send(method, std::string(target) + "?token=open-sesame").status == 401);
    CHECK(client.send(method, target, "", kRight).status != 401);
  }
  CHECK(client.get("/ping").status == 200);
  CHECK(client.get("/metrics").status == 200);
  CHECK(infer(client, "m").status == 200);
  CHECK(it.server->log().find("sesame") == std::string::npos);
}

TEST_CASE("no spelling of a path or method reaches an admin call without its token", "[admin]") {
  Served it("echo", {}, kToken);
  auto client = it.server->client();
  CHECK(infer(client, "m").status == 200);
  const std::string port = std::to_string(it.server->port());
  const std::string tricks[] = {"//models/m",
                                "/./models/m",
                                "/models/./m",
                                "/models//m",
                                "/x/../models/m",
                                "/models/x/../m",
                                "/%6dodels/m",
                                "/models%2fm",
                                "/models/%6d",
                                "/models/m/",
                                "/models/m%2f",
                                "/models/m;x=y",
                                "/models/m%00",
                                "/models/%2e/m",
                                "/models/%2e%2e/models/m",
                                "/MODELS/m",
                                "/Models/m",
                                "/models/m?x=y",
                                "/models/m%20",
                                "\\models\\m",
                                "/models\\m",
                                "http://localhost/models/m",
                                "http://localhost:" + port + "//models/m",
                                "http://127.0.0.1/models/m"};
  for (const auto& target : tricks) {
    INFO(target);
    const unsigned status = it.status(request("DELETE", target));
    CHECK((status == 400 || status == 401 || status == 404 || status == 405));
  }
  const std::string overrides[] = {"X-HTTP-Method-Override: DELETE\r\n", "X-HTTP-Method: DELETE\r\n",
                                   "X-Method-Override: DELETE\r\n",      "X-Original-URL: /status\r\n",
                                   "X-Rewrite-URL: /status\r\n",         "X-Forwarded-Path: /status\r\n"};
  for (const auto& header : overrides) {
    INFO(header);
    CHECK(it.raw(request("GET", "/models/m", header)).body.find("modelName") != std::string::npos);
    CHECK(it.status(request("POST", "/models/m", header)) == 405);
  }
  CHECK(it.status(request("DELETE", "/models/m?_method=GET")) == 401);
  CHECK(it.raw(request("HEAD", "/status"), true).status == 401);
  CHECK(it.status("delete /models/m HTTP/1.1\r\nHost: localhost\r\n\r\n") == 501);
  CHECK(client.get("/models/m").status == 200);  // it is still there
}

TEST_CASE("on loopback a Host that is not loopback gets 403 on every route", "[admin]") {
  Served it;
  for (const char* target : {"/ping", "/status", "/models", "/nowhere", "/v2/models/m"}) {
    INFO(target);
    const auto asked = [&](const std::string& host) {
      return it.status("GET " + std::string(target) + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    };
    for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1",
                             "evil.example:8080", "xlocalhost"}) {
      INFO(host);
      CHECK(asked(host) == 403);
    }
    for (const char* host : {"localhost", "127.0.0.1", "localhost:9", "127.0.0.1:9", "[::1]", "LOCALHOST"}) {
      INFO(host);
      CHECK(asked(host) != 403);
    }
  }
}

TEST_CASE("F22: every verb on every route is answered, or 405 with those that are", "[http]") {
  Served it;
  auto client = it.server->client();
  const char* targets[] = {"/ping",
                           "/invocations",
                           "/models",
                           "/models/m",
                           "/models/m/invoke",
                           "/v2",
                           "/v2/health/live",
                           "/v2/health/ready",
                           "/v2/models/m",
                           "/v2/models/m/ready",
                           "/v2/models/m/infer",
                           "/v2/repository/index",
                           "/metrics",
                           "/status",
                           "/repository/models",
                           "/admin/reload",
                           "/admin/budget"};
  for (const char* target : targets) {
    for (const char* method : {"PUT", "PATCH", "OPTIONS", "TRACE"}) {
      INFO(method << " " << target);
      const auto reply = client.send(method, target);
      if (std::string(target) == "/admin/budget" && std::string(method) == "PUT") {
        CHECK(reply.status == 400);
      } else {
        CHECK(reply.status == 405);
        CHECK_FALSE(reply.header("Allow").empty());
      }
    }
    const auto get = it.raw(request("GET", target));
    const auto head = it.raw(request("HEAD", target), true);
    INFO(target);
    CHECK(head.status == get.status);
    CHECK(head.body.empty());
  }
  CHECK(it.status(request("BREW", "/ping")) == 501);
}

TEST_CASE("F2, F21: what is no clean HTTP/1.1 request is refused", "[http]") {
  Served it;
  CHECK(
      it.status("POST /v2/models/m/infer HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") ==
      400);
  CHECK(it.status("GET /ping HTTP/1.1\r\n\r\n") == 400);
  CHECK(it.status("GET /ping HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n") == 400);
  CHECK(it.status("GET /ping HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n") == 400);
  CHECK(it.status("POST /ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3, 3\r\n\r\nabc") == 400);
  CHECK(it.status("POST /ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc") ==
        400);
  CHECK(it.status(std::string("GET /ping HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n", 46)) == 400);
  CHECK(it.status("get /ping HTTP/1.1\r\nHost: localhost\r\n\r\n") == 501);
  CHECK(it.status("GET /ping HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(8193, 'a') + "\r\n\r\n") == 431);
  CHECK(it.status("GET http://localhost/ping HTTP/1.1\r\nHost: localhost\r\n\r\n") == 200);
}

TEST_CASE("F4: a body of a million tiny chunks is taken or refused, and costs no memory", "[http]") {
  Served it;
  std::string chunks;
  for (int i = 0; i < 1'000'000; ++i) chunks += "1\r\n \r\n";
  const std::size_t before = it.server->rss_bytes();
  together(4, [&](int) {
    RawHttpClient client(it.server->port());
    client.send("POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(chunks + "0\r\n\r\n");
    const unsigned status = client.read_status();
    CHECK((status == 400 || status == 413));
  });
  CHECK(it.server->rss_bytes() < before + 64 * kMiB);
  CHECK(it.status(request("GET", "/ping")) == 200);
}

TEST_CASE("F8: 100-continue is answered before the body is sent, too large a body at once", "[http]") {
  Served it;
  RawHttpClient client(it.server->port());
  const std::string body = two_floats().dump();
  client.send("POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  CHECK(client.read_status() == 100);
  client.send(body);
  CHECK(client.read_status() == 200);
  CHECK(it.status("POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                  "Content-Length: 999999999\r\n\r\n") == 413);
  CHECK(
      it.status("POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nExpect: foo\r\nContent-Length: 2\r\n\r\n{}") ==
      417);
}

TEST_CASE("F10: what is left of a refused body is never taken for a request", "[http]") {
  Served it;
  for (const std::size_t size : {std::size_t{1000}, kMiB}) {
    RawHttpClient client(it.server->port());
    std::string body = request("GET", "/status");
    while (body.size() < size) body += request("GET", "/status");
    client.send(request("POST", "/v2/models/nobody/infer", "", body) + request("GET", "/ping"));
    auto replies = client.read_all(500ms);
    REQUIRE_FALSE(replies.empty());
    CHECK((replies[0].status == 404 || replies[0].status == 400));
    CHECK(replies.size() <= 2);
    if (replies.size() == 2) CHECK(replies[1].body.empty());  // the ping
  }
}

TEST_CASE("F11: calls whose clients left never start", "[http]") {
  Served it("slow", {"--set", "threads.compute=1"});
  auto client = it.server->client();
  CHECK(infer(client, "m").status == 200);
  const double one_call = cost_of_a_call(*it.server);
  const double before = cpu_seconds(it.server->pid());
  {
    std::vector<RawHttpClient> gone;
    for (int i = 0; i < 60; ++i) {
      gone.emplace_back(it.server->port());
      gone.back().send(infer_request("m"));
    }
    REQUIRE(eventually([&] { return client.get("/status").json()["models"][0]["waiting"] > 0; }));
    for (auto& one : gone) one.reset();
  }
  REQUIRE(eventually([&] {
    const auto model = client.get("/status").json()["models"][0];
    return model["running"] == 0 && model["waiting"] == 0;
  }));
  CHECK(cpu_seconds(it.server->pid()) - before < 30 * one_call);
  CHECK(infer(client, "m").status == 200);
  CHECK(infer(client, "echo").status == 200);
}

TEST_CASE("F12: calls end at their deadline, and those that wait then never run", "[http]") {
  Served it("slow", {"--set", "threads.compute=1"});
  auto client = it.server->client();
  CHECK(infer(client, "m").status == 200);
  const double one_call = cost_of_a_call(*it.server);
  const double before = cpu_seconds(it.server->pid());
  std::atomic<int> late{0};
  std::atomic<int> answered{0};
  together(60, [&](int) {
    const unsigned status = it.status(infer_request("m", "X-Request-Timeout-Ms: 200\r\n"));
    if (status == 504) ++late;
    if (status == 200) ++answered;
  });
  CHECK(late + answered == 60);
  CHECK(late > 0);
  REQUIRE(eventually([&] { return client.get("/status").json()["models"][0]["running"] == 0; }));
  CHECK(cpu_seconds(it.server->pid()) - before < (answered + 30) * one_call);
  CHECK(infer(client, "m").status == 200);
}

TEST_CASE("F14: a reply over the limit is a declared refusal, and others are served", "[http]") {
  Served it("echo", {"--set", "limits.response=64KiB"});
  auto client = it.server->client();
  const Json large{{"inputs", {tensor("x", {50'000}, "FP32", std::vector<float>(50'000, 1.5F))}}};
  const auto refused = infer(client, "m", large);
  CHECK(refused.status == 413);
  CHECK(refused.header("X-MME-Reason") == "body_too_large");
  CHECK(infer(client, "m").status == 200);
}

TEST_CASE("F17: JSON of any depth is refused, in ignored fields too", "[http]") {
  Served it;
  const auto status = [&](const std::string& body) {
    return it.status(request("POST", "/v2/models/m/infer", "", body));
  };
  CHECK(status("{\"x\":" + std::string(1'000'000, '[')) == 400);
  CHECK(status("{\"x\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}") == 400);
  CHECK(status("{\"ignored\":" + std::string(33, '[') + std::string(33, ']') + ",\"inputs\":[]}") == 400);
  CHECK(it.status(request("POST", "/models/m/invoke", "", std::string(100'000, '['))) == 400);
  CHECK(it.status(request("GET", "/ping")) == 200);
}

TEST_CASE("F18: slow clients are cut at their limits, and others do not notice", "[http]") {
  Served it("echo", {"--set", "timeouts.header=300ms", "--set", "timeouts.body_idle=300ms"});
  std::vector<RawHttpClient> slow;
  for (int i = 0; i < 100; ++i) {
    slow.emplace_back(it.server->port());
    slow.back().send(i % 2 == 0
                         ? "GET /ping HTTP/1.1\r\nHost: local"
                         : "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  }
  auto client = it.server->client();
  for (int i = 0; i < 50; ++i) CHECK(client.get("/ping").status == 200);
  for (auto& one : slow) CHECK(one.read_status() == 408);
}

TEST_CASE("F19: a flood of connections is refused, not suffered", "[http]") {
  Served it("echo", {"--set", "limits.connections=50"});
  std::vector<RawHttpClient> idle;
  for (int i = 0; i < 50; ++i) idle.emplace_back(it.server->port());
  REQUIRE(eventually([&] { return it.status(request("GET", "/ping")) == 503; }));
  idle.clear();
  CHECK(eventually([&] { return it.status(request("GET", "/ping")) == 200; }));
  CHECK(infer(*std::make_unique<HttpClient>(it.server->port()), "m").status == 200);
}

TEST_CASE("G25: what a model prints cannot forge a line of the log", "[log]") {
  Served it("print");
  auto client = it.server->client();
  CHECK(infer(client, "m").status == 200);
  CHECK(it.server->terminate() == 0);
  std::istringstream lines(it.server->log());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto json = Json::parse(line, nullptr, false);
    INFO(line);
    CHECK(json.is_object());
    CHECK(json.value("level", "") != "fake");
  }
  CHECK(count > 2);
}
