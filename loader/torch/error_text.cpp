#include "loader/torch/error_text.hpp"

#include <algorithm>
#include <cctype>

namespace mme::loader {
namespace {

constexpr std::size_t longest = 300;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Length of "SomeError: " at the beginning of a line; 0 when it does not begin so.
std::size_t raised_prefix(std::string_view line) {
  std::size_t end = 0;
  while (end < line.size() && (is_word(line[end]) || line[end] == '.')) ++end;
  return end > 0 && line.substr(end).starts_with(": ") ? end + 2 : 0;
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// The interpreter prints a traceback and then `Name: message`, at the left margin.
std::string_view raised_message(std::string_view text) {
  if (text.find("Traceback of TorchScript") == std::string_view::npos) return {};
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (line.starts_with("Traceback")) continue;
    const std::size_t prefix = raised_prefix(line);
    if (prefix > 0) return line.substr(prefix);
  }
  return {};
}

std::string_view first_meaningful(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = next_line(text);
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) continue;
    line.remove_prefix(begin);
    if (!line.starts_with("Exception raised from") && !line.starts_with("frame #")) return line;
  }
  return {};
}

/// End of a token that is a path ("/a/b") or an address ("0x7f..") beginning at `at`; `at` itself when it is none.
std::size_t end_of_secret(std::string_view line, std::size_t at) {
  if (at > 0 && (is_word(line[at - 1]) || line[at - 1] == '/' || line[at - 1] == '.')) return at;
  std::size_t end = at;
  if (line.substr(at).starts_with("0x")) {
    end = at + 2;
    while (end < line.size() && std::isxdigit(static_cast<unsigned char>(line[end])) != 0) ++end;
    return end - at >= 8 ? end : at;
  }
  if (line[at] != '/' || at + 1 >= line.size() || !(is_word(line[at + 1]) || line[at + 1] == '.')) return at;
  while (end < line.size() &&
         (is_word(line[end]) || std::string_view("/.-+~").find(line[end]) != std::string_view::npos))
    ++end;
  return end;
}

std::string without_secrets(std::string_view line) {
  std::string clean;
  for (std::size_t at = 0; at < line.size() && clean.size() < longest;) {
    const std::size_t end = end_of_secret(line, at);
    if (end > at) {
      clean += "...";
      at = end;
      continue;
    }
    const auto byte = static_cast<unsigned char>(line[at++]);
    clean += byte < 0x20 || byte == 0x7f ? ' ' : static_cast<char>(byte);
  }
  return clean;
}

/// Cuts an unfinished UTF-8 sequence and blanks off the end.
void tidy_end(std::string& text) {
  std::size_t start = text.size();
  while (start > 0 && (static_cast<unsigned char>(text[start - 1]) & 0xC0) == 0x80) --start;
  if (start > 0 && static_cast<unsigned char>(text[start - 1]) >= 0xC0) {
    const auto lead = static_cast<unsigned char>(text[start - 1]);
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (text.size() - (start - 1) < length) text.resize(start - 1);
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string_view line = raised_message(text);
  if (line.empty()) line = first_meaningful(text);
  std::string clean = without_secrets(line);
  tidy_end(clean);
  return clean.empty() ? "no message" : clean;
}

}  // namespace mme::loader
