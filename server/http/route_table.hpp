// From the segments of a path to the verbs that live there.
// Runs nothing and writes no replies; the router does.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/router.hpp"

namespace mme::server {

/// One verb of one pattern.
struct Endpoint {
  std::string pattern;
  Access access = Access::open;
  Handler handler;
  std::shared_ptr<const Dialect> dialect;
};

/// A tree of segments. Immutable after the last add(); then safe to read from several threads.
class RouteTable {
 public:
  struct Node {
    std::map<std::string, std::unique_ptr<Node>, std::less<>> literals;
    std::unique_ptr<Node> placeholder;
    std::map<Method, Endpoint> endpoints;
    const Dialect* owner = nullptr;  ///< the dialect that first named this literal segment
  };
  struct Match {
    const Node* node = nullptr;  ///< null: no pattern matches
    std::vector<std::string_view> parameters;
  };

  /// conflict when the verb and pattern are taken (placeholder names do not count), invalid_request for a pattern that
  /// is none; both are mistakes of ours, found at start.
  Result<void> add(Method method, Endpoint endpoint);

  /// A literal segment wins over a placeholder, from the left; where a literal leads nowhere the placeholder is tried.
  /// Literals are compared as sent, undecoded. A placeholder never matches an empty segment, "." or "..".
  [[nodiscard]] Match match(std::string_view path) const;

  /// Whose error shape a path gets when no route is found: that of the dialect which first named the last of the
  /// path's leading segments that is a literal of the table. Null when the first one is not.
  [[nodiscard]] const Dialect* owner(std::string_view path) const;

  [[nodiscard]] const Node& root() const noexcept { return root_; }

 private:
  Node root_;
};

}  // namespace mme::server
