// The rules of request framing, one small function a rule.
// Reads bytes only: no socket, no clock, no body.
#include "server/http/framing_guard.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <optional>

#include "loader/guards.hpp"

namespace mme::server {
namespace {

using boost::beast::iequals;
using loader::guard;

constexpr std::string_view kBlankLine = "\r\n\r\n";
// "OPTIONS " and " HTTP/1.1" around a target, and some room for methods that we answer with 501.
constexpr std::size_t kRequestLineExtra = 64;

Error bad(std::string message) {
  return fail(ErrorCode::invalid_request, std::move(message));
}

bool is_token_char(char c) noexcept {
  constexpr std::string_view others = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || others.find(c) != others.npos;
}

bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

std::string_view trim(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Cuts the next line off the front of `rest`; the scan has made sure that CRLF is the only line end in it.
std::string_view next_line(std::string_view& rest) noexcept {
  const auto line = rest.substr(0, rest.find("\r\n"));
  rest.remove_prefix(std::min(line.size() + 2, rest.size()));
  return line;
}

Result<void> check_line_ends(std::string_view bytes) {
  for (std::size_t i = 0; guard("line_ends") && i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (c == '\0') return bad("the request head holds a NUL");
    if (c == '\n' && (i == 0 || bytes[i - 1] != '\r')) return bad("a line of the request head ends in a bare LF");
    if (c == '\r' && i + 1 < bytes.size() && bytes[i + 1] != '\n') return bad("the request head holds a bare CR");
  }
  return {};
}

std::optional<Method> parse_method(std::string_view text) noexcept {
  constexpr std::array all{Method::get,   Method::head, Method::post,    Method::put,
                           Method::patch, Method::del,  Method::options, Method::trace};
  for (const Method method : all) {
    if (to_string(method) == text) return method;
  }
  return std::nullopt;
}

Result<void> parse_version(std::string_view text, Head& head) {
  const bool well_formed =
      text.size() == 8 && text.starts_with("HTTP/") && is_digit(text[5]) && text[6] == '.' && is_digit(text[7]);
  if (guard("version_known") && !well_formed) return bad("the request line does not end in an HTTP version");
  if (guard("version_known") && text != "HTTP/1.1" && text != "HTTP/1.0") {
    return fail(ErrorCode::version_not_supported, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  head.http_1_0 = text == "HTTP/1.0";
  return {};
}

bool is_target_char(char c) noexcept {
  return c > 0x20 && c < 0x7f && c != '#';
}

/// Leaves the authority of an absolute target in `authority`, empty for the other forms.
Result<void> parse_target(std::string_view text, Head& head, std::string_view& authority) {
  const bool printable = !text.empty() && std::all_of(text.begin(), text.end(), is_target_char);
  if (guard("target_characters") && !printable) {
    return bad("the request target holds a character that must be escaped");
  }
  constexpr std::string_view scheme = "http://";
  if (text.front() == '/' || (text == "*" && head.method == Method::options)) {
    head.target = text;
    return {};
  }
  if (guard("target_form") && !iequals(text.substr(0, scheme.size()), scheme)) {
    return bad("the request target is not a path");
  }
  text.remove_prefix(std::min(scheme.size(), text.size()));
  authority = text.substr(0, text.find_first_of("/?"));
  text.remove_prefix(authority.size());
  if (authority.empty()) return bad("the request target names no host");
  head.target = text.starts_with('/') ? std::string(text) : "/" + std::string(text);
  return {};
}

Result<void> parse_request_line(std::string_view line, const HttpLimits& limits, Head& head,
                                std::string_view& authority) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == line.npos || first == last) return bad("the request line is not METHOD TARGET VERSION");
  const auto method = line.substr(0, first);
  const auto target = line.substr(first + 1, last - first - 1);
  if (guard("method_token") && !is_token(method)) return bad("the method is not a token");
  if (auto version = parse_version(line.substr(last + 1), head); !version) return version.error();
  const auto known = parse_method(method);
  if (!known) return fail(ErrorCode::method_not_implemented, "no such method is known here");
  head.method = *known;
  if (guard("target_length") && target.size() > limits.target) {
    return fail(ErrorCode::target_too_long, "the request target is too long");
  }
  return parse_target(target, head, authority);
}

bool is_value_char(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

Result<void> parse_field(std::string_view line, Head& head) {
  const bool folded = line.front() == ' ' || line.front() == '\t';
  if (guard("no_folding") && folded) return bad("folded header lines are not accepted");
  const auto colon = line.find(':');
  if (guard("header_name") && (colon == line.npos || !is_token(line.substr(0, colon)))) {
    return bad("a header line has no proper name");
  }
  const auto value = trim(line.substr(colon + 1));
  if (guard("control_characters") && !std::all_of(value.begin(), value.end(), is_value_char)) {
    return bad("a header value holds a control character");
  }
  head.headers.emplace_back(line.substr(0, colon), value);
  return {};
}

Result<void> parse_fields(std::string_view rest, const HttpLimits& limits, Head& head) {
  if (guard("header_bytes") && rest.size() > limits.headers) {
    return fail(ErrorCode::headers_too_large, "the request headers are too large");
  }
  for (auto line = next_line(rest); !line.empty(); line = next_line(rest)) {
    if (guard("header_count") && head.headers.size() == limits.header_count) {
      return fail(ErrorCode::headers_too_large, "the request has too many headers");
    }
    if (auto field = parse_field(line, head); !field) return field.error();
  }
  return {};
}

std::size_t count_headers(const Headers& headers, std::string_view name) noexcept {
  return static_cast<std::size_t>(
      std::count_if(headers.begin(), headers.end(), [&](const auto& header) { return iequals(header.first, name); }));
}

bool is_host(std::string_view host) noexcept {
  constexpr std::string_view others = "-._~[]:";
  return !host.empty() && std::all_of(host.begin(), host.end(), [&](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || others.find(c) != others.npos;
  });
}

Result<void> apply_host(Head& head, std::string_view authority) {
  const auto count = count_headers(head.headers, "Host");
  if (guard("host_exactly_one") && count > 1) return bad("the request has more than one Host");
  if (count == 0) {
    if (guard("host_exactly_one") && !head.http_1_0) return bad("the request has no Host");
    head.host = authority;
    return {};
  }
  head.host = *find_header(head.headers, "Host");
  if (guard("host_is_name") && !is_host(head.host)) return bad("the Host is not a host name");
  if (guard("host_agrees_with_target") && !authority.empty() && !iequals(authority, head.host)) {
    return bad("the request target and Host differ");
  }
  return {};
}

Result<void> apply_transfer_encoding(Head& head, std::size_t count) {
  if (guard("no_chunked_on_1_0") && head.http_1_0) return bad("Transfer-Encoding is not a part of HTTP/1.0");
  const bool exact = count == 1 && iequals(*find_header(head.headers, "Transfer-Encoding"), "chunked");
  if (guard("transfer_encoding_exact") && !exact) {
    return bad("the only Transfer-Encoding accepted is chunked, once");
  }
  if (guard("one_framing") && count_headers(head.headers, "Content-Length") != 0) {
    return bad("the request has both Content-Length and Transfer-Encoding");
  }
  head.body = BodyKind::chunked;
  return {};
}

Result<void> apply_body(Head& head) {
  if (const auto count = count_headers(head.headers, "Transfer-Encoding"); count != 0) {
    return apply_transfer_encoding(head, count);
  }
  const auto count = count_headers(head.headers, "Content-Length");
  if (count == 0) return {};
  const auto text = *find_header(head.headers, "Content-Length");
  const bool plain = !text.empty() && text.size() <= 18 && std::all_of(text.begin(), text.end(), is_digit);
  if (guard("plain_content_length") && (count > 1 || !plain))
    return bad("Content-Length must be given once, as plain digits");
  std::from_chars(text.data(), text.data() + text.size(), head.body_size);
  head.body = head.body_size == 0 ? BodyKind::none : BodyKind::sized;
  return {};
}

void apply_connection(Head& head) {
  bool close = false;
  bool keep = false;
  for (const auto& [name, value] : head.headers) {
    if (!iequals(name, "Connection")) continue;
    for (std::string_view rest = value; !rest.empty();) {
      const auto item = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(item.size() + 1, rest.size()));
      close = close || iequals(trim(item), "close");
      keep = keep || iequals(trim(item), "keep-alive");
    }
  }
  head.keep_alive = !close && (keep || !head.http_1_0);
}

void apply_expect(Head& head) {
  const auto expect = find_header(head.headers, "Expect");
  head.expects_continue = expect && !head.http_1_0 && iequals(*expect, "100-continue");
}

}  // namespace

Result<std::size_t> scan_head(std::string_view bytes, const HttpLimits& limits) {
  const auto end = bytes.find(kBlankLine);
  const auto head = bytes.substr(0, end == bytes.npos ? end : end + kBlankLine.size());
  if (auto ends = check_line_ends(head); !ends) return ends.error();
  // Up to the CR, also when its LF has not come yet: where the bytes are cut must not change what is allowed.
  const auto line = head.substr(0, head.find('\r')).size();
  if (guard("target_length") && line > limits.target + kRequestLineExtra) {
    return fail(ErrorCode::target_too_long, "the request target is too long");
  }
  if (guard("header_bytes") && head.size() - line > limits.headers + 2) {
    return fail(ErrorCode::headers_too_large, "the request headers are too large");
  }
  return end == bytes.npos ? 0 : head.size();
}

Result<Head> parse_head(std::string_view bytes, const HttpLimits& limits) {
  Head head;
  std::string_view authority;
  const auto line = next_line(bytes);
  if (auto done = parse_request_line(line, limits, head, authority); !done) return done.error();
  if (auto done = parse_fields(bytes, limits, head); !done) return done.error();
  if (auto done = apply_host(head, authority); !done) return done.error();
  if (auto done = apply_body(head); !done) return done.error();
  apply_connection(head);
  apply_expect(head);
  return head;
}

Result<void> check_head(const Head& head, const HttpLimits& limits, bool loopback_only) {
  if (guard("loopback_host") && loopback_only && !head.host.empty() && !is_loopback_host(head.host)) {
    return fail(ErrorCode::forbidden, "this listener answers to loopback hosts only");
  }
  const bool unmet = !head.expects_continue && !head.http_1_0 && count_headers(head.headers, "Expect") != 0;
  if (guard("expect_417") && unmet) {
    return fail(ErrorCode::expectation_failed, "the only expectation met here is 100-continue");
  }
  for (const auto& [name, value] : head.headers) {
    const bool coded = iequals(name, "Content-Encoding") && !iequals(value, "identity") && !value.empty();
    if (guard("content_encoding") && coded) {
      return fail(ErrorCode::media_type_unsupported, "request bodies must come without Content-Encoding");
    }
  }
  if (guard("body_limit_before_read") && head.body_size > limits.body) {
    return fail(ErrorCode::body_too_large, "the request body is over the limit");
  }
  return {};
}

bool is_loopback_host(std::string_view host) noexcept {
  const auto port = host.find(':', host.starts_with('[') ? std::min(host.find(']'), host.size()) : 0);
  const auto name = host.substr(0, port);
  if (iequals(name, "localhost") || name == "[::1]") return true;
  boost::system::error_code ignored;
  const auto address = boost::asio::ip::make_address_v4(name, ignored);
  return !ignored && address.is_loopback();
}

}  // namespace mme::server
