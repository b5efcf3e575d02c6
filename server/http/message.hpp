// Requests and replies as the dialects see them. No Beast and no socket here; server/http/session fills and sends them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/error.hpp"
#include "loader/memory_grant.hpp"
#include "loader/model.hpp"

namespace mme::server {

using loader::Deadline;
using loader::Error;
using loader::ErrorCode;
using loader::fail;
using loader::Result;

enum class Method { get, head, post, put, patch, del, options, trace };
[[nodiscard]] std::string_view to_string(Method method) noexcept;

using Headers = std::vector<std::pair<std::string, std::string>>;

/// First header of that name, compared without case.
[[nodiscard]] std::optional<std::string_view> find_header(const Headers& headers, std::string_view name) noexcept;

/// Asks for room for `bytes` of a body in the memory budget. Null: there is none. Empty function: nothing is charged.
using BodyClaim = std::function<std::shared_ptr<loader::MemoryGrant>(std::size_t)>;

/// How the bodies of one request and its reply are held against the memory budget.
struct BodyBudget {
  BodyClaim claim;
  std::size_t uncharged = std::size_t{64} << 10;  ///< bodies up to this size are not held against the budget
  std::size_t response = SIZE_MAX;                ///< bytes that a reply may have
};

/// A whole request: framing is checked, the body is read, the target is split but not yet decoded.
struct Request {
  Method method = Method::get;
  std::string path;  ///< raw, percent-encoded, begins with '/'
  Headers query;     ///< decoded pairs in order
  Headers headers;   ///< as sent
  std::string body;
  std::string id;  ///< X-Request-Id of the client, or made by us
  Deadline deadline = Deadline::max();
  BodyBudget budget;
  std::shared_ptr<loader::MemoryGrant> body_grant = nullptr;  ///< what `body` takes of the budget

  /// Gives the body's memory back, once it has been read.
  void drop_body() noexcept {
    body = std::string();
    body_grant.reset();
  }
  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const noexcept {
    return find_header(headers, name);
  }
  [[nodiscard]] std::optional<std::string_view> parameter(std::string_view name) const noexcept;
};

struct Reply {
  unsigned status = 200;
  Headers headers;  ///< without Content-Length, Connection, X-Request-Id: the session adds those
  std::string body;
  std::shared_ptr<loader::MemoryGrant> grant = nullptr;  ///< what `body` takes of the budget; null: not yet claimed
};

/// What the access line says of a request beyond method, path, status and bytes. Filled by whoever knows.
struct AccessRecord {
  std::string dialect;
  std::string model;   ///< empty unless the name exists
  std::string reason;  ///< reason(code) of the error that was answered
  std::string cache;   ///< hit, miss, joined
  std::string fault;   ///< text of an exception that left the handler, a defect of ours; for the log only
  double queue_ms = 0;
  double load_ms = 0;
  double run_ms = 0;
};

}  // namespace mme::server
