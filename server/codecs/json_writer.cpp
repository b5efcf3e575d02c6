#include "server/codecs/json_writer.hpp"

#include <simdjson.h>

#include <array>
#include <charconv>
#include <cstdlib>

namespace mme::server {
namespace {

/// Length of the UTF-8 sequence at the front of `text`; 0 when it is none.
std::size_t sequence_length(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  return is_utf8(text.substr(0, length)) ? length : 0;
}

void append_escape(std::string& out, char c) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(c);
  out += "\\u00";
  out += kHex[code >> 4U];
  out += kHex[code & 15U];
}

bool is_plain(char c) noexcept {
  const auto code = static_cast<unsigned char>(c);
  return code >= 0x20 && code < 0x7F && c != '"' && c != '\\';
}

template <class T>
void append_integer(std::string& out, T value) {
  std::array<char, 24> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out.append(buffer.data(), end);
}

template <class T>
void append_real(std::string& out, T value) {
  std::array<char, 64> buffer;
  char* const limit = buffer.data() + buffer.size();
  auto written = std::to_chars(buffer.data(), limit, value, std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  const int exponent = std::atoi(std::string(text.substr(text.find('e') + 1)).c_str());
  if (exponent < -4 || exponent >= 16) {
    out += text;
    return;
  }
  written = std::to_chars(buffer.data(), limit, value, std::chars_format::fixed);
  text = std::string_view(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  out += text;
  if (text.find('.') == std::string_view::npos) out += ".0";
}

}  // namespace

void append_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && is_plain(text[plain])) ++plain;
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    std::size_t length = sequence_length(text);
    if (length > 1) {
      out += text.substr(0, length);
    } else if (length == 1) {
      append_escape(out, text.front());
    } else {
      out += "\xEF\xBF\xBD";
      length = 1;
    }
    text.remove_prefix(length);
  }
  out += '"';
}

void append_number(std::string& out, std::int64_t value) {
  append_integer(out, value);
}
void append_number(std::string& out, std::uint64_t value) {
  append_integer(out, value);
}
void append_number(std::string& out, double value) {
  append_real(out, value);
}
void append_number(std::string& out, float value) {
  append_real(out, value);
}

bool is_utf8(std::string_view text) noexcept {
  return simdjson::validate_utf8(text.data(), text.size());
}

void append_key(std::string& out, std::string_view key) {
  out += out.empty() || out.back() == '{' || out.back() == '[' ? "" : ",";
  out += '"';
  out += key;
  out += "\":";
}

}  // namespace mme::server
