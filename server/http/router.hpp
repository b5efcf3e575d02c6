// From (path, method) to a handler. Each dialect lists its routes in one table; the router joins the tables and
// answers 404, 405 and HEAD itself.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/http/message.hpp"

namespace mme::server {

namespace asio = boost::asio;

/// One request on its way: what came in, what the route matched, what the access line will say.
struct Exchange {
  Request& request;                     ///< a handler may take the body
  std::vector<std::string> parameters;  ///< decoded values of {placeholders}, in order
  AccessRecord record;
};

enum class Access { open, admin };

using Handler = std::function<asio::awaitable<Reply>(Exchange&)>;

/// `pattern`: segments; "{x}" matches one segment, decoded once. "/v2/models/{m}/infer".
/// A literal segment wins over a placeholder.
struct Route {
  Method method;
  std::string_view pattern;
  Access access;
  Handler handler;
};

/// One protocol. Knows the shape of its own error bodies.
class Dialect {
 public:
  virtual ~Dialect() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual std::vector<Route> routes() = 0;
  [[nodiscard]] virtual Reply error_reply(const Error& error) const = 0;
};

struct RouterOptions {
  bool admin_mounted = true;  ///< false: admin routes do not exist on this listener (404)
  /// Bearer token that admin routes demand; nullopt: none is asked for.
  std::optional<std::string> admin_token = std::nullopt;
};

/// Immutable and cheap to copy. All members may be called from any thread.
class Router {
 public:
  /// Joins the tables. A clash (same verb and pattern in two dialects) is an error naming both.
  static Result<Router> make(std::vector<std::shared_ptr<Dialect>> dialects, RouterOptions options = {});

  /// Finds and runs the handler. Every error becomes a Reply here: unknown paths 404, wrong verbs 405 with Allow,
  /// admin calls without the token 401; HEAD runs GET (the session sends no body). Handlers that throw give 500
  /// `internal`, and what they threw in `record.fault`. Each error reply carries X-MME-Reason, and Retry-After where
  /// the code has one; for a handler's own error replies both are taken from `exchange.record.reason`, unless they are
  /// there.
  asio::awaitable<Reply> handle(Request& request, AccessRecord& record) const;

  /// What handle() would answer without running a handler; nullopt when it would run one. Needs no body, so that a
  /// request which nobody will serve is refused before its body is read.
  [[nodiscard]] std::optional<Reply> refuse(const Request& request, AccessRecord& record) const;

  /// The reply for an error found before a handler ran, in the shape of the dialect that owns the path.
  [[nodiscard]] Reply error_reply(std::string_view path, const Error& error) const;

  /// The reply for an error found before the path is known, in the neutral shape {"error": "..."}.
  static Reply early_error(const Error& error);

 private:
  struct Table;
  struct Found;
  explicit Router(std::shared_ptr<const Table> table) : table_(std::move(table)) {}
  [[nodiscard]] std::variant<Found, Reply> find(const Request& request, AccessRecord& record) const;

  std::shared_ptr<const Table> table_;
};

}  // namespace mme::server
