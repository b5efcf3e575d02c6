// Routes: who gets a path, what is answered when nobody does, and who may call what. No sockets.
#include "server/http/router.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/http/status.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;

namespace {

struct Line {
  Method method;
  std::string_view pattern;
  Access access = Access::open;
};

asio::awaitable<Reply> say(std::string_view pattern, Exchange* exchange) {
  Reply reply;
  reply.body = pattern;
  for (const auto& value : exchange->parameters) reply.body += "|" + value;
  co_return reply;
}

/// Its handlers answer with their pattern and what the placeholders matched.
class Lines : public Dialect {
 public:
  Lines(std::string name, std::vector<Line> lines) : name_(std::move(name)), lines_(std::move(lines)) {}
  std::string_view name() const noexcept override { return name_; }
  std::vector<Route> routes() override {
    std::vector<Route> routes;
    for (const auto& line : lines_) {
      const auto pattern = line.pattern;
      routes.push_back({line.method, pattern, line.access, [pattern](Exchange& e) { return say(pattern, &e); }});
    }
    return routes;
  }
  Reply error_reply(const Error& error) const override {
    Reply reply;
    reply.status = http_status(error.code);
    reply.body = name_ + ": " + error.message;
    return reply;
  }

 private:
  std::string name_;
  std::vector<Line> lines_;
};

std::shared_ptr<Dialect> lines(std::string name, std::vector<Line> all) {
  return std::make_shared<Lines>(std::move(name), std::move(all));
}

Reply call(const Router& router, Method method, std::string path, Headers headers = {}) {
  Request request;
  request.method = method;
  request.path = std::move(path);
  request.headers = std::move(headers);
  AccessRecord record;
  boost::asio::io_context io;
  auto reply = boost::asio::co_spawn(io, router.handle(request, record), boost::asio::use_future);
  io.run();
  auto result = reply.get();
  CHECK(record.reason == find_header(result.headers, "X-MME-Reason").value_or(""));
  return result;
}

Router two_dialects(RouterOptions options = {}) {
  return *Router::make({lines("a", {{Method::get, "/models"},
                                    {Method::post, "/models/{m}/invoke"},
                                    {Method::del, "/models/{m}", Access::admin},
                                    {Method::get, "/models/{m}"}}),
                        lines("b", {{Method::get, "/v2"},
                                    {Method::get, "/v2/models/{m}"},
                                    {Method::get, "/v2/models/stats"},
                                    {Method::post, "/v2/models/{m}/infer"},
                                    {Method::post, "/v2/models/{m}/versions/{v}/infer"},
                                    {Method::post, "/models/{m}/other"},
                                    {Method::get, "/status", Access::admin}})},
                       std::move(options));
}

}  // namespace

TEST_CASE("paths go to their patterns, literals first") {
  const auto router = two_dialects();
  const std::map<std::string, std::string> table{
      {"/models", "/models"},
      {"/models/m", "/models/{m}|m"},
      {"/models/a%2Fb%20c", "/models/{m}|a/b c"},
      {"/models/%252e", "/models/{m}|%2e"},
      {"/v2", "/v2"},
      {"/v2/models/stats", "/v2/models/stats"},
      {"/v2/models/statsx", "/v2/models/{m}|statsx"},
      {"/v2/models/Stats", "/v2/models/{m}|Stats"},
  };
  for (const auto& [path, answer] : table) {
    INFO(path);
    CHECK(call(router, Method::get, path).body == answer);
  }
  CHECK(call(router, Method::post, "/v2/models/stats/infer").body == "/v2/models/{m}/infer|stats");
  CHECK(call(router, Method::post, "/v2/models/m/versions/3/infer").body == "/v2/models/{m}/versions/{v}/infer|m|3");
}

TEST_CASE("a path that is nobody's gets a 404 in the shape of the dialect that owns its beginning") {
  const auto router = two_dialects();
  const std::map<std::string, std::string> table{
      {"/", ""},         {"/x", ""},          {"/Models", ""},         {"//models", ""},      {"/./models", ""},
      {"/models/", "a"}, {"/models//", "a"},  {"/models/m/x", "a"},    {"/models/.", "a"},    {"/models/..", "a"},
      {"/v2/", "b"},     {"/v2/models", "b"}, {"/v2/models/m/x", "b"}, {"/v2/../models", "b"}};
  for (const auto& [path, owner] : table) {
    INFO(path);
    const auto reply = call(router, Method::get, path);
    CHECK(reply.status == 404);
    CHECK(find_header(reply.headers, "X-MME-Reason") == "route_unknown");
    CHECK(reply.body.starts_with(owner.empty() ? "{\"error\":" : owner + ": "));
  }
}

TEST_CASE("a verb that a path does not take is a 405 that lists those it takes") {
  const auto router = two_dialects();
  const auto allow = [&](Method method, const std::string& path) {
    const auto reply = call(router, method, path);
    CHECK(reply.status == 405);
    return std::string(find_header(reply.headers, "Allow").value_or(""));
  };
  CHECK(allow(Method::post, "/models") == "GET, HEAD");
  CHECK(allow(Method::options, "/models/m") == "GET, HEAD, DELETE");
  CHECK(allow(Method::get, "/models/m/invoke") == "POST");
  CHECK(allow(Method::head, "/models/m/invoke") == "POST");
  CHECK(allow(Method::trace, "/v2") == "GET, HEAD");
  CHECK(allow(Method::options, "*") == "GET, HEAD, POST, DELETE");
}

TEST_CASE("HEAD is answered by the handler of GET") {
  CHECK(call(two_dialects(), Method::head, "/models/m").body == "/models/{m}|m");
}

TEST_CASE("admin routes that are not mounted do not exist") {
  const auto router = two_dialects({false, std::nullopt});
  CHECK(call(router, Method::get, "/status").status == 404);
  const auto reply = call(router, Method::del, "/models/m");
  CHECK(reply.status == 405);
  CHECK(find_header(reply.headers, "Allow") == "GET, HEAD");
  CHECK(call(router, Method::get, "/models/m").status == 200);
}

TEST_CASE("admin routes with a token let in those who have it") {
  const auto router = two_dialects({true, "s3cret"});
  const auto status = [&](Headers headers) {
    const auto reply = call(router, Method::del, "/models/m", std::move(headers));
    if (reply.status == 401) CHECK(find_header(reply.headers, "WWW-Authenticate") == "Bearer");
    return reply.status;
  };
  CHECK(status({{"Authorization", "Bearer s3cret"}}) == 200);
  CHECK(status({{"authorization", "bearer s3cret"}}) == 200);
  CHECK(status({}) == 401);
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crets", "Bearer s3crets3cret",
                            "Bearer S3cret", "Basic s3cret", "s3cret", "Bearer  s3cret"}) {
    INFO(wrong);
    CHECK(status({{"Authorization", wrong}}) == 401);
  }
  CHECK(call(router, Method::get, "/models/m").status == 200);
  CHECK(call(router, Method::head, "/status").status == 401);
  CHECK(call(router, Method::get, "/status/").status == 404);
}

TEST_CASE("an empty token lets nobody in") {
  const auto router = two_dialects({true, ""});
  CHECK(call(router, Method::get, "/status", {{"Authorization", "Bearer "}}).status == 401);
}

TEST_CASE("a name that cannot be decoded is a 400 of the route's dialect") {
  const auto reply = call(two_dialects(), Method::get, "/v2/models/%zz");
  CHECK(reply.status == 400);
  CHECK(reply.body.starts_with("b: "));
}

TEST_CASE("refuse() says what handle() would, without running anything") {
  const auto router = two_dialects({true, "t"});
  Request request;
  AccessRecord record;
  request.path = "/models";
  CHECK_FALSE(router.refuse(request, record).has_value());
  request.path = "/nowhere";
  CHECK(router.refuse(request, record)->status == 404);
  request.path = "/status";
  CHECK(router.refuse(request, record)->status == 401);
}

TEST_CASE("two dialects cannot have the same verb and pattern") {
  const auto clash = Router::make({lines("a", {{Method::get, "/x/{m}"}}), lines("b", {{Method::get, "/x/{name}"}})});
  REQUIRE(clash.has_error());
  CHECK(clash.error().code == ErrorCode::conflict);
  CHECK(clash.error().message == "GET is routed by both a (/x/{m}) and b (/x/{name})");
  CHECK(Router::make({lines("a", {{Method::get, "/x"}}), lines("b", {{Method::post, "/x"}})}).has_value());
}

TEST_CASE("a malformed pattern is refused at start") {
  for (const char* bad : {"", "x", "/a/{", "/a/{}", "/{m}:predict", "/a%20b"}) {
    INFO(bad);
    CHECK(Router::make({lines("a", {{Method::get, bad}})}).has_error());
  }
}

TEST_CASE("an error before a route is known is neutral, one on a known path is the dialect's") {
  const auto error = loader::fail(ErrorCode::body_too_large, "too large");
  CHECK(Router::early_error(error).body == "{\"error\":\"too large\"}");
  const auto reply = two_dialects().error_reply("/v2/models/m/infer", error);
  CHECK(reply.body == "b: too large");
  CHECK(find_header(reply.headers, "X-MME-Reason") == "body_too_large");
}
