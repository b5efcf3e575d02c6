// A second, naive reading of HTTP requests to hold the real one against: it takes for granted that a request was
// accepted, and tells whether the bytes bear that out. Slow, allocating and without limits on purpose.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mme::fuzz {

inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

inline std::string without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return std::string(text);
}

struct PlainHead {
  std::string method;
  std::string version;
  std::vector<std::pair<std::string, std::string>> fields;  ///< names in lower case

  [[nodiscard]] std::vector<std::string> all(std::string_view name) const {
    std::vector<std::string> values;
    for (const auto& [key, value] : fields) {
      if (key == name) values.push_back(value);
    }
    return values;
  }
};

/// nullopt when a line is none that may be in a head: folded, without a name, with a blank before its colon, or with a
/// control character.
inline std::optional<PlainHead> read_plain_head(std::string_view head) {
  PlainHead plain;
  bool first = true;
  while (!head.empty()) {
    const auto end = head.find("\r\n");
    if (end == head.npos) return std::nullopt;
    const auto line = head.substr(0, end);
    head.remove_prefix(end + 2);
    for (const char c : line) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte < 0x20 && byte != '\t') || byte == 0x7f) return std::nullopt;
    }
    if (line.empty()) return head.empty() ? std::optional(plain) : std::nullopt;
    if (first) {
      plain.method = line.substr(0, line.find(' '));
      plain.version = line.substr(line.rfind(' ') + 1);
      first = false;
      continue;
    }
    const auto colon = line.find(':');
    if (colon == line.npos || colon == 0) return std::nullopt;
    const auto name = line.substr(0, colon);
    if (name.find_first_of(" \t") != name.npos) return std::nullopt;
    plain.fields.emplace_back(lower(name), without_blanks(line.substr(colon + 1)));
  }
  return std::nullopt;
}

struct PlainBody {
  std::string body;
  std::size_t size = 0;  ///< bytes on the wire
};

/// Takes chunks apart by the book; nullopt when they are broken or not whole.
inline std::optional<PlainBody> read_plain_chunks(std::string_view bytes) {
  PlainBody result;
  const auto whole = bytes;
  for (;;) {
    const auto line = bytes.substr(0, bytes.find("\r\n"));
    if (line.size() == bytes.size()) return std::nullopt;
    std::size_t size = 0;
    std::size_t digits = 0;
    for (; digits < line.size(); ++digits) {
      const auto at = std::string_view("0123456789abcdef").find(lower(line.substr(digits, 1)));
      if (at == std::string_view::npos) break;
      size = size * 16 + at;
      if (size > whole.size() && digits > 8) return std::nullopt;
    }
    if (digits == 0) return std::nullopt;
    bytes.remove_prefix(line.size() + 2);
    if (size == 0) break;
    if (bytes.size() < size + 2 || bytes.substr(size, 2) != "\r\n") return std::nullopt;
    result.body += bytes.substr(0, size);
    bytes.remove_prefix(size + 2);
  }
  for (;;) {  // trailers, up to a blank line
    const auto end = bytes.find("\r\n");
    if (end == bytes.npos) return std::nullopt;
    bytes.remove_prefix(end + 2);
    if (end == 0) break;
  }
  result.size = whole.size() - bytes.size();
  return result;
}

}  // namespace mme::fuzz
