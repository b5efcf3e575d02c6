// The load generator against a small server in the same thread.
#include "server/loadgen/load_generator.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <stdexcept>

#include "tests/support/catch.hpp"

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using mme::server::LoadPlan;
using mme::server::LoadReport;
using mme::server::LoadTarget;
using mme::server::Outcome;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

/// Answers by path; counts connections and requests.
class TinyServer {
 public:
  TinyServer() : acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    asio::co_spawn(context_, accept(), asio::detached);
  }

  /// Runs the plan on the server's own thread.
  LoadReport run(LoadPlan plan) {
    plan.server = acceptor_.local_endpoint();
    std::optional<LoadReport> report;
    std::exception_ptr broke;
    asio::co_spawn(context_, mme::server::generate_load(std::move(plan)),
                   [&](std::exception_ptr problem, LoadReport r) {
                     broke = problem;
                     report = std::move(r);
                     context_.stop();
                   });
    context_.run_for(std::chrono::seconds(20));
    if (broke) std::rethrow_exception(broke);
    if (!report) throw std::runtime_error("the run did not end");
    return *report;
  }

  int connections = 0;
  int requests = 0;

 private:
  using Response = http::response<http::string_body>;

  asio::awaitable<void> accept() {
    for (;;) {
      auto [problem, socket] = co_await acceptor_.async_accept(kNoThrow);
      if (problem) co_return;
      ++connections;
      asio::co_spawn(context_, serve(std::move(socket)), asio::detached);
    }
  }

  asio::awaitable<void> serve(tcp::socket socket) {
    beast::flat_buffer buffer;
    for (;;) {
      http::request<http::string_body> request;
      const auto [problem, size] = co_await http::async_read(socket, buffer, request, kNoThrow);
      if (problem) co_return;
      ++requests;
      if (request.target() == "/close") co_return;
      if (request.target() == "/silent") {
        asio::steady_timer never(context_, std::chrono::seconds(60));
        co_await never.async_wait(kNoThrow);
      }
      Response response = answer(request);
      co_await http::async_write(socket, response, kNoThrow);
      if (!response.keep_alive()) co_return;
    }
  }

  static Response answer(const http::request<http::string_body>& request) {
    Response response;
    response.version(11);
    response.body() = request.body();
    if (request.target() == "/full") {
      response.result(429);
      response.set("X-MME-Reason", "queue_full");
    }
    if (request.target() == "/defect") {
      response.result(500);
      response.set("X-MME-Reason", "internal");
    }
    if (request.target() == "/bare") response.result(503);
    response.keep_alive(request.target() != "/last");
    response.prepare_payload();
    return response;
  }

  asio::io_context context_{1};
  tcp::acceptor acceptor_;
};

LoadTarget target(const std::string& path, double weight = 1) {
  LoadTarget made;
  made.name = path;
  made.path = path;
  made.body = "hello";
  made.weight = weight;
  return made;
}

LoadPlan plan(std::vector<LoadTarget> targets, unsigned clients, std::uint64_t requests) {
  LoadPlan made;
  made.targets = std::move(targets);
  made.clients = clients;
  made.requests = requests;
  made.timeout = std::chrono::seconds(10);
  return made;
}

}  // namespace

TEST_CASE("a reply is ok, a declared refusal or a defect") {
  using mme::server::classify;
  CHECK(classify(200, "", true) == Outcome::ok);
  CHECK(classify(204, "", true) == Outcome::ok);
  CHECK(classify(200, "", false) == Outcome::wrong);
  CHECK(classify(507, "all_in_use", true) == Outcome::refused);
  CHECK(classify(500, "inference_failed", true) == Outcome::refused);
  CHECK(classify(500, "internal", true) == Outcome::undeclared);
  CHECK(classify(503, "", true) == Outcome::undeclared);
}

TEST_CASE("exactly the planned number of requests is sent, over one connection per client") {
  TinyServer server;
  const LoadReport report = server.run(plan({target("/a"), target("/b")}, 7, 500));
  CHECK(report.total().requests == 500);
  CHECK(report.total().ok == 500);
  CHECK(report.total().latency.count() == 500);
  CHECK(report.targets[0].name == "/a");
  CHECK(report.targets[0].requests > 200);
  CHECK(report.targets[1].requests > 200);
  CHECK(server.requests == 500);
  CHECK(server.connections == 7);
}

TEST_CASE("every end of a request is counted as what it is") {
  TinyServer server;
  LoadTarget wrong = target("/wrong");
  wrong.is_right = [](std::string_view body) { return body != "hello"; };
  const LoadReport report =
      server.run(plan({target("/ok"), target("/full"), target("/defect"), target("/bare"), wrong}, 3, 300));
  CHECK(report.targets[0].ok == report.targets[0].requests);
  CHECK(report.targets[1].refused == report.targets[1].requests);
  CHECK(report.targets[1].failures.at("429 queue_full") == report.targets[1].requests);
  CHECK(report.targets[2].undeclared == report.targets[2].requests);
  CHECK(report.targets[3].undeclared == report.targets[3].requests);
  CHECK(report.targets[4].wrong == report.targets[4].requests);
  CHECK(report.total().defects() + report.total().ok + report.total().refused == 300);
  CHECK(report.total().latency.count() == report.targets[0].ok);
}

TEST_CASE("a connection closed without an answer is a defect, and the client connects again") {
  TinyServer server;
  const LoadReport report = server.run(plan({target("/close")}, 1, 3));
  CHECK(report.total().no_answer == 3);
  CHECK(report.total().defects() == 3);
  CHECK(server.connections == 3);
}

TEST_CASE("a reply that closes is an answer, and the client connects again") {
  TinyServer server;
  const LoadReport report = server.run(plan({target("/last")}, 1, 4));
  CHECK(report.total().ok == 4);
  CHECK(server.connections == 4);
}

TEST_CASE("a silent server ends as no answer when the time is up") {
  TinyServer server;
  LoadPlan impatient = plan({target("/silent")}, 1, 1);
  impatient.timeout = std::chrono::milliseconds(50);
  CHECK(server.run(impatient).total().no_answer == 1);
}

TEST_CASE("a run by duration ends by itself") {
  TinyServer server;
  LoadPlan timed = plan({target("/a")}, 2, 0);
  timed.requests.reset();
  timed.duration = std::chrono::milliseconds(60);
  const LoadReport report = server.run(timed);
  CHECK(report.total().ok > 0);
  CHECK(report.elapsed >= std::chrono::milliseconds(60));
}

TEST_CASE("clients give up on a server that is not there") {
  LoadPlan lost = plan({target("/a")}, 2, 1'000'000);
  asio::io_context context;
  {
    tcp::acceptor taken(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    lost.server = taken.local_endpoint();
  }
  const LoadReport report = mme::server::run_load(lost);
  CHECK(report.total().no_answer == report.total().requests);
  CHECK(report.total().requests == 40);
}

TEST_CASE("a plan without targets, clients or end is refused") {
  TinyServer server;
  CHECK_THROWS(server.run(plan({}, 1, 1)));
  TinyServer second;
  CHECK_THROWS(second.run(plan({target("/a")}, 0, 1)));
  LoadPlan endless = plan({target("/a")}, 1, 1);
  endless.requests.reset();
  TinyServer third;
  CHECK_THROWS(third.run(endless));
}
