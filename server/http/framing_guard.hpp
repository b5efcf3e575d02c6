// Decides, from the raw bytes of a request head alone, where the request ends and whether we take it.
// No socket, no clock, no body. Stricter than RFC 9112 wherever two servers in a row could disagree about framing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/limits.hpp"
#include "server/http/message.hpp"

namespace mme::server {

enum class BodyKind { none, sized, chunked };

/// A request head that passed the guard.
struct Head {
  Method method = Method::get;
  bool http_1_0 = false;
  std::string target;  ///< origin form, raw: begins with '/'; "*" for OPTIONS only
  Headers headers;     ///< as sent, values trimmed
  std::string host;    ///< empty only on HTTP/1.0
  BodyKind body = BodyKind::none;
  std::uint64_t body_size = 0;  ///< of a sized body, never 0
  bool keep_alive = true;       ///< what the client wants
  bool expects_continue = false;
};

/// Bytes of the head at the front of `bytes`, its blank line included; 0 while it is incomplete.
/// Errors as soon as the bytes so far cannot become one: target_too_long, headers_too_large, invalid_request (NUL, a
/// bare CR or LF). Whatever the error, nothing after it on the connection can be trusted.
[[nodiscard]] Result<std::size_t> scan_head(std::string_view bytes, const HttpLimits& limits);

/// Takes a whole head apart. After an error here framing is lost and the connection must close.
/// Errors: invalid_request, version_not_supported, method_not_implemented, headers_too_large, target_too_long.
[[nodiscard]] Result<Head> parse_head(std::string_view head, const HttpLimits& limits);

/// Refusals of a well-framed request that need nothing but its head; the body may still be on its way.
/// expectation_failed, media_type_unsupported, body_too_large, and forbidden when `loopback_only` and the Host is not a
/// loopback one.
[[nodiscard]] Result<void> check_head(const Head& head, const HttpLimits& limits, bool loopback_only);

/// True for localhost, 127.0.0.0/8 and [::1], each with or without a port.
[[nodiscard]] bool is_loopback_host(std::string_view host) noexcept;

}  // namespace mme::server
