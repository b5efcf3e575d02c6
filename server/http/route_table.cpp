// From the segments of a path to the verbs that live there.
// Runs nothing and writes no replies.
#include "server/http/route_table.hpp"

#include <span>

#include "loader/guards.hpp"
#include "server/http/uri.hpp"

namespace mme::server {
namespace {

using Node = RouteTable::Node;

bool is_placeholder(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

bool is_literal(std::string_view segment) {
  return segment.find_first_of("{}%") == segment.npos;
}

Node* descend(Node& from, std::string_view segment, const Dialect* dialect) {
  if (is_placeholder(segment)) {
    if (!from.placeholder) from.placeholder = std::make_unique<Node>();
    return from.placeholder.get();
  }
  if (!is_literal(segment)) return nullptr;
  auto& next = from.literals[std::string(segment)];
  if (!next) next = std::make_unique<Node>();
  if (!next->owner) next->owner = dialect;
  return next.get();
}

bool fits_placeholder(std::string_view segment) {
  return !segment.empty() && ((segment != "." && segment != "..") || !loader::guard("dot_segments"));
}

const Node* walk(const Node& node, std::span<const std::string_view> rest, std::vector<std::string_view>& parameters) {
  if (rest.empty()) return node.endpoints.empty() ? nullptr : &node;
  if (const auto literal = node.literals.find(rest.front()); literal != node.literals.end()) {
    if (const Node* found = walk(*literal->second, rest.subspan(1), parameters)) return found;
  }
  if (!node.placeholder || !fits_placeholder(rest.front())) return nullptr;
  parameters.push_back(rest.front());
  const Node* found = walk(*node.placeholder, rest.subspan(1), parameters);
  if (!found) parameters.pop_back();
  return found;
}

}  // namespace

Result<void> RouteTable::add(Method method, Endpoint endpoint) {
  const auto dialect = endpoint.dialect.get();
  Node* node = endpoint.pattern.starts_with('/') ? &root_ : nullptr;
  for (const auto segment : split_path(endpoint.pattern)) {
    if (node) node = descend(*node, segment, dialect);
  }
  if (!node) return fail(ErrorCode::invalid_request, "the route pattern " + endpoint.pattern + " is malformed");
  const auto taken = node->endpoints.find(method);
  if (taken != node->endpoints.end()) {
    const auto& other = taken->second;
    std::string names = std::string(other.dialect->name()) + " (" + other.pattern + ") and ";
    names += std::string(dialect->name()) + " (" + endpoint.pattern + ")";
    return fail(ErrorCode::conflict, std::string(to_string(method)) + " is routed by both " + names);
  }
  node->endpoints.emplace(method, std::move(endpoint));
  return {};
}

RouteTable::Match RouteTable::match(std::string_view path) const {
  Match result;
  if (!path.starts_with('/')) return result;
  const auto segments = split_path(path);
  result.node = walk(root_, segments, result.parameters);
  return result;
}

const Dialect* RouteTable::owner(std::string_view path) const {
  const Node* node = &root_;
  if (!path.starts_with('/')) return nullptr;
  for (const auto segment : split_path(path)) {
    const auto next = node->literals.find(segment);
    if (next == node->literals.end()) break;
    node = next->second.get();
  }
  return node->owner;
}

}  // namespace mme::server
