// Replies in bytes: the head of a reply, and the reply that stands for an error in its neutral shape.
// Writes nothing to a socket and knows no dialect.
#pragma once

#include <cstddef>
#include <ctime>
#include <string>
#include <string_view>

#include "server/http/message.hpp"

namespace mme::server {

/// {"error": "..."} with the status of the code, X-MME-Reason and Retry-After.
[[nodiscard]] Reply neutral_error(const Error& error);

/// Adds X-MME-Reason, and Retry-After where the code has one, unless they are there.
void annotate(Reply& reply, ErrorCode code);

/// Statuses whose replies never have a body, nor a Content-Length.
[[nodiscard]] bool has_no_body(unsigned status) noexcept;

/// What only the session knows of a reply.
struct ReplyFrame {
  bool http_1_0 = false;
  bool keep_alive = true;
  std::string_view request_id;
  std::time_t now = 0;
};

/// Status line and headers with the blank line. Content-Length is the body's size, also for HEAD. Header names that are
/// no tokens are left out; control characters in values become spaces; headers that are the session's own are ignored.
[[nodiscard]] std::string serialize_head(const Reply& reply, const ReplyFrame& frame);

/// A client's X-Request-Id that may be echoed: 1 to 128 of A-Z a-z 0-9 . _ : -
[[nodiscard]] bool is_request_id(std::string_view id) noexcept;
/// A fresh one, 32 hexadecimal digits; any thread.
[[nodiscard]] std::string make_request_id();

}  // namespace mme::server
