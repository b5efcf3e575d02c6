// Replies in bytes.
// Writes nothing to a socket and knows no dialect.
#include "server/http/reply.hpp"

#include <algorithm>
#include <array>
#include <boost/beast/core/string.hpp>
#include <cstdint>
#include <cstdio>
#include <random>

#include "loader/guards.hpp"
#include "server/codecs/json_writer.hpp"
#include "server/http/status.hpp"

namespace mme::server {
namespace {

using boost::beast::iequals;

bool is_name_char(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

bool is_session_header(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 6> ours{"Content-Length", "Connection",        "Keep-Alive",
                                                 "X-Request-Id",   "Transfer-Encoding", "Date"};
  return std::any_of(ours.begin(), ours.end(), [&](std::string_view own) { return iequals(own, name); });
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_name_char)) return;
  out += name;
  out += ": ";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    out += loader::guard("reply_header_bytes") && (byte < 0x20 || byte == 0x7f) ? ' ' : c;
  }
  out += "\r\n";
}

/// Fixed English names: strftime would follow the locale.
std::string http_date(std::time_t now) {
  constexpr std::array days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array months{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  const int size = std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT",
                                 days[static_cast<std::size_t>(utc.tm_wday) % 7], utc.tm_mday,
                                 months[static_cast<std::size_t>(utc.tm_mon) % 12], utc.tm_year + 1900, utc.tm_hour,
                                 utc.tm_min, utc.tm_sec);
  return {text, static_cast<std::size_t>(std::max(size, 0))};
}

std::uint64_t random_bits() {
  thread_local std::mt19937_64 engine = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return engine();
}

}  // namespace

bool has_no_body(unsigned status) noexcept {
  return status < 200 || status == 204 || status == 304;
}

void annotate(Reply& reply, ErrorCode code) {
  if (!find_header(reply.headers, "X-MME-Reason")) reply.headers.emplace_back("X-MME-Reason", loader::reason(code));
  const auto seconds = retry_after_seconds(code);
  if (seconds && !find_header(reply.headers, "Retry-After")) {
    reply.headers.emplace_back("Retry-After", std::to_string(*seconds));
  }
}

Reply neutral_error(const Error& error) {
  Reply reply;
  reply.status = http_status(error.code);
  reply.headers.emplace_back("Content-Type", "application/json");
  reply.body = "{\"error\":";
  append_string(reply.body, error.message);
  reply.body += '}';
  annotate(reply, error.code);
  return reply;
}

std::string serialize_head(const Reply& reply, const ReplyFrame& frame) {
  std::string out = "HTTP/1.1 " + std::to_string(reply.status) + ' ';
  out += status_phrase(reply.status);
  out += "\r\n";
  for (const auto& [name, value] : reply.headers) {
    if (!is_session_header(name)) append_header(out, name, value);
  }
  append_header(out, "Date", http_date(frame.now));
  append_header(out, "X-Request-Id", frame.request_id);
  if (!has_no_body(reply.status)) append_header(out, "Content-Length", std::to_string(reply.body.size()));
  if (!frame.keep_alive) append_header(out, "Connection", "close");
  if (frame.keep_alive && frame.http_1_0) append_header(out, "Connection", "keep-alive");
  out += "\r\n";
  return out;
}

bool is_request_id(std::string_view id) noexcept {
  const bool plain = std::all_of(id.begin(), id.end(), [](char c) { return is_name_char(c) || c == '.' || c == ':'; });
  return !id.empty() && id.size() <= 128 && (plain || !loader::guard("request_id_characters"));
}

std::string make_request_id() {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(random_bits()),
                static_cast<unsigned long long>(random_bits()));
  return text;
}

}  // namespace mme::server
