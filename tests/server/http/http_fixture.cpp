// A server on loopback with a small dialect of its own, for the socket tests.
// No models.
#include "tests/server/http/http_fixture.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "server/http/reply.hpp"
#include "server/http/status.hpp"

namespace mme::test {

namespace asio = boost::asio;
using namespace mme::server;

namespace {

Reply text(std::string body) {
  Reply reply;
  reply.headers.emplace_back("Content-Type", "text/plain");
  reply.body = std::move(body);
  return reply;
}

std::size_t number(const Request& request, std::string_view name) {
  return std::strtoul(std::string(request.parameter(name).value_or("0")).c_str(), nullptr, 10);
}

asio::awaitable<Reply> ping(std::shared_ptr<Seen> seen) {
  ++seen->handled;
  co_return Reply{};
}

asio::awaitable<Reply> echo(std::shared_ptr<Seen> seen, Exchange* exchange) {
  ++seen->handled;
  auto reply = text(exchange->parameters.at(0) + ":" + exchange->request.body);
  reply.headers.emplace_back("X-Echo", exchange->parameters.at(0));
  co_return reply;
}

asio::awaitable<Reply> slow(std::shared_ptr<Seen> seen, Exchange* exchange) {
  ++seen->handled;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(std::chrono::milliseconds(number(exchange->request, "ms")));
  const auto [error] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  ++(error ? seen->cancelled : seen->finished);
  co_return text("slow");
}

asio::awaitable<Reply> big(std::shared_ptr<Seen> seen, Exchange* exchange) {
  ++seen->handled;
  co_return text(std::string(number(exchange->request, "bytes"), 'x'));
}

asio::awaitable<Reply> throws(std::shared_ptr<Seen> seen) {
  ++seen->handled;
  throw std::runtime_error("secret detail of /srv/models");
  co_return Reply{};
}

asio::awaitable<Reply> fails(const Dialect* dialect, Exchange* exchange) {
  exchange->record.reason = "queue_full";
  co_return dialect->error_reply(fail(ErrorCode::queue_full, "the queue is full"));
}

asio::awaitable<Reply> deadline(Exchange* exchange) {
  const auto left = exchange->request.deadline - loader::Clock::now();
  co_return text(std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(left).count()));
}

/// Error bodies say "test:" so that a test can see whose shape it got.
class TestDialect : public Dialect {
 public:
  explicit TestDialect(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
  std::string_view name() const noexcept override { return "test"; }
  std::vector<Route> routes() override {
    const auto seen = seen_;
    return {
        {Method::get, "/ping", Access::open, [seen](Exchange&) { return ping(seen); }},
        {Method::get, "/echo/{name}", Access::open, [seen](Exchange& e) { return echo(seen, &e); }},
        {Method::post, "/echo/{name}", Access::open, [seen](Exchange& e) { return echo(seen, &e); }},
        {Method::post, "/slow", Access::open, [seen](Exchange& e) { return slow(seen, &e); }},
        {Method::get, "/big", Access::open, [seen](Exchange& e) { return big(seen, &e); }},
        {Method::get, "/throw", Access::open, [seen](Exchange&) { return throws(seen); }},
        {Method::get, "/fail", Access::open, [this](Exchange& e) { return fails(this, &e); }},
        {Method::get, "/deadline", Access::open, [](Exchange& e) { return deadline(&e); }},
        {Method::del, "/things/{name}", Access::admin, [seen](Exchange& e) { return echo(seen, &e); }},
        {Method::get, "/things/{name}", Access::open, [seen](Exchange& e) { return echo(seen, &e); }},
        {Method::get, "/secret", Access::admin, [seen](Exchange&) { return ping(seen); }},
    };
  }
  Reply error_reply(const Error& error) const override {
    Reply reply = text("test: " + error.message);
    reply.status = http_status(error.code);
    return reply;
  }

 private:
  std::shared_ptr<Seen> seen_;
};

asio::awaitable<void> drain_and_tell(Server& server, std::chrono::milliseconds limit,
                                     std::shared_ptr<std::atomic<bool>> done) {
  co_await server.drain(limit);
  *done = true;
}

}  // namespace

std::shared_ptr<Dialect> make_test_dialect(std::shared_ptr<Seen> seen) {
  return std::make_shared<TestDialect>(std::move(seen));
}

std::chrono::milliseconds patience() {
  const char* seconds = std::getenv("MME_TEST_PATIENCE_S");
  return std::chrono::seconds(seconds == nullptr ? 30 : std::atoi(seconds));
}

HttpFixture::HttpFixture(FixtureOptions options) {
  auto router = Router::make({make_test_dialect(seen_)}, options.router);
  if (!router) throw std::runtime_error(router.error().message);
  auto sink = [this](const AccessLine& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  };
  server_.emplace(io_, options.http, *router, sink, options.claim);
  const auto port = server_->start(options.address, 0);
  if (!port) throw std::runtime_error(port.error().message);
  port_ = *port;
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this] {
      const auto guard = asio::make_work_guard(io_);
      io_.run();
    });
  }
}

HttpFixture::~HttpFixture() {
  const auto done = drain(std::chrono::milliseconds(0));
  eventually([&] { return done->load(); });
  io_.stop();
  for (auto& thread : threads_) thread.join();
}

std::vector<AccessLine> HttpFixture::lines() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

std::shared_ptr<std::atomic<bool>> HttpFixture::drain(std::chrono::milliseconds limit) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  asio::co_spawn(io_, drain_and_tell(*server_, limit, done), asio::detached);
  return done;
}

const std::string kPingRequest = get_request("/ping");

std::string get_request(const std::string& target, const std::string& more) {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

std::string post_request(const std::string& target, const std::string& body, const std::string& more) {
  return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

bool eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + patience();
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace mme::test
