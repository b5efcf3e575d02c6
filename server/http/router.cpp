// From a request to its reply: finds the route, asks for the token, runs the handler, answers what has no handler.
// Reads no socket; the shapes of error bodies are the dialects'.
#include "server/http/router.hpp"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <boost/beast/core/string.hpp>
#include <exception>
#include <set>

#include "loader/guards.hpp"
#include "server/http/reply.hpp"
#include "server/http/route_table.hpp"
#include "server/http/uri.hpp"

namespace mme::server {
namespace {

/// Takes time that depends on what the client sent, not on how much of it is right.
bool same_secret(std::string_view sent, std::string_view secret) noexcept {
  if (secret.empty()) return false;
  volatile std::size_t difference = sent.size() ^ secret.size();
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const auto byte = static_cast<unsigned char>(sent[i] ^ secret[i % secret.size()]);
    difference = difference | byte;
  }
  return difference == 0;
}

bool has_token(const Request& request, std::string_view token) noexcept {
  constexpr std::string_view scheme = "Bearer ";
  const auto sent = request.header("Authorization").value_or("");
  return boost::beast::iequals(sent.substr(0, scheme.size()), scheme) && same_secret(sent.substr(scheme.size()), token);
}

void collect_methods(const RouteTable::Node& node, bool deep, std::set<Method>& methods) {
  for (const auto& [method, endpoint] : node.endpoints) {
    methods.insert(method);
    if (method == Method::get) methods.insert(Method::head);
  }
  if (!deep) return;
  for (const auto& [segment, child] : node.literals) collect_methods(*child, true, methods);
  if (node.placeholder) collect_methods(*node.placeholder, true, methods);
}

/// "GET, HEAD, POST"; with `deep` of everything below the node as well.
std::string allow(const RouteTable::Node& node, bool deep) {
  std::set<Method> methods;
  collect_methods(node, deep, methods);
  std::string names;
  for (const Method method : methods) {
    if (!names.empty()) names += ", ";
    names += to_string(method);
  }
  return names;
}

std::optional<ErrorCode> code_of(std::string_view reason) noexcept {
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code) {
    if (loader::reason(static_cast<ErrorCode>(code)) == reason) return static_cast<ErrorCode>(code);
  }
  return std::nullopt;
}

/// Handlers render their own errors; what every error reply must carry is completed here.
void complete_error(Reply& reply, AccessRecord& record) {
  if (reply.status < 400) return;
  if (record.reason.empty()) record.reason = find_header(reply.headers, "X-MME-Reason").value_or("");
  if (const auto code = code_of(record.reason)) annotate(reply, *code);
}

Reply error_from(const Dialect* dialect, const Error& error, AccessRecord& record) {
  Reply reply = dialect ? dialect->error_reply(error) : neutral_error(error);
  annotate(reply, error.code);
  record.reason = loader::reason(error.code);
  if (dialect) record.dialect = dialect->name();
  return reply;
}

std::string text_of(const std::exception_ptr& escaped) {
  try {
    std::rethrow_exception(escaped);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is no exception";
  }
}

}  // namespace

struct Router::Table {
  RouteTable routes;
  RouterOptions options;
};

struct Router::Found {
  const Endpoint* endpoint;
  std::vector<std::string> parameters;
};

Result<Router> Router::make(std::vector<std::shared_ptr<Dialect>> dialects, RouterOptions options) {
  auto table = std::make_shared<Table>();
  table->options = std::move(options);
  for (const auto& dialect : dialects) {
    for (auto& route : dialect->routes()) {
      const bool hidden = route.access == Access::admin && !table->options.admin_mounted;
      if (loader::guard("admin_mounting") && hidden) continue;
      Endpoint endpoint{std::string(route.pattern), route.access, std::move(route.handler), dialect};
      if (auto added = table->routes.add(route.method, std::move(endpoint)); !added) return added.error();
    }
  }
  return Router(std::move(table));
}

std::variant<Router::Found, Reply> Router::find(const Request& request, AccessRecord& record) const {
  const auto& routes = table_->routes;
  const bool whole_server = request.path == "*";
  const auto match = routes.match(request.path);
  const auto* owner = routes.owner(request.path);
  if (!match.node && !whole_server) {
    return error_from(owner, fail(ErrorCode::route_unknown, "there is nothing at this path"), record);
  }
  const auto& node = whole_server ? routes.root() : *match.node;
  auto entry = node.endpoints.find(request.method);
  if (entry == node.endpoints.end() && request.method == Method::head) entry = node.endpoints.find(Method::get);
  if (entry == node.endpoints.end() || whole_server) {
    auto reply = error_from(owner, fail(ErrorCode::method_not_allowed, "this path does not take this method"), record);
    reply.headers.emplace_back("Allow", allow(node, whole_server));
    return reply;
  }
  const Endpoint& endpoint = entry->second;
  // The one place where admin calls are let in.
  if (loader::guard("admin_token") && endpoint.access == Access::admin && table_->options.admin_token &&
      !has_token(request, *table_->options.admin_token)) {
    auto reply =
        error_from(endpoint.dialect.get(),
                   fail(ErrorCode::unauthorized, "this call needs the bearer token of an administrator"), record);
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  Found found{&endpoint, {}};
  for (const auto encoded : match.parameters) {
    auto decoded = decode_segment(encoded);
    if (!decoded) return error_from(endpoint.dialect.get(), decoded.error(), record);
    found.parameters.push_back(std::move(*decoded));
  }
  return found;
}

std::optional<Reply> Router::refuse(const Request& request, AccessRecord& record) const {
  auto found = find(request, record);
  if (auto* reply = std::get_if<Reply>(&found)) return std::move(*reply);
  return std::nullopt;
}

asio::awaitable<Reply> Router::handle(Request& request, AccessRecord& record) const {
  // Kept for the whole call: the caller's router may be replaced meanwhile.
  const auto table = table_;
  auto found = find(request, record);
  if (auto* refusal = std::get_if<Reply>(&found)) co_return std::move(*refusal);
  auto& route = std::get<Found>(found);
  Exchange exchange{request, std::move(route.parameters), record};
  exchange.record.dialect = route.endpoint->dialect->name();
  Reply reply;
  std::exception_ptr escaped;
  try {
    reply = co_await route.endpoint->handler(exchange);
  } catch (...) {
    escaped = std::current_exception();
  }
  record = std::move(exchange.record);
  if (escaped) {
    const auto state = co_await asio::this_coro::cancellation_state;
    // A handler that was cancelled ends by an exception; that is no defect and nobody reads the reply.
    if (state.cancelled() == asio::cancellation_type::none) record.fault = text_of(escaped);
    const Error error = fail(ErrorCode::internal, "an internal error");
    reply = error_from(route.endpoint->dialect.get(), error, record);
  }
  complete_error(reply, record);
  co_return reply;
}

Reply Router::error_reply(std::string_view path, const Error& error) const {
  AccessRecord unused;
  return error_from(table_->routes.owner(path), error, unused);
}

Reply Router::early_error(const Error& error) {
  return neutral_error(error);
}

}  // namespace mme::server
