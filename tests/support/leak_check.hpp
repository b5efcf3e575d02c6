// Every error reply that any suite reads goes through here: it must not tell of the machine it came from.
// What the client itself had sent may come back: an echo of its own name is no leak.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mme::test {

inline bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Where an address begins: 0x and six digits or more.
inline std::size_t find_address(std::string_view text) {
  for (auto at = text.find("0x"); at != text.npos; at = text.find("0x", at + 1)) {
    std::size_t end = at + 2;
    while (end < text.size() && is_hex(text[end])) ++end;
    if (end - at >= 8) return at;
  }
  return text.npos;
}

/// Where the name of a shared library ends: .so, and no word that goes on.
inline std::size_t find_library(std::string_view text) {
  for (auto at = text.find(".so"); at != text.npos; at = text.find(".so", at + 1)) {
    const char next = at + 3 < text.size() ? text[at + 3] : ' ';
    if ((next < 'a' || next > 'z') && next != '_') return at;
  }
  return text.npos;
}

/// %XX decoded, anything else as it is.
inline std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && is_hex(text[i + 1]) && is_hex(text[i + 2])) {
      out += static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// The folder that this program was built from; empty when the compiler was given relative names.
inline std::string_view source_folder() {
  constexpr std::string_view self = "tests/support/leak_check.hpp";
  constexpr std::string_view file = __FILE__;
  return file.ends_with(self) && file.front() == '/' ? file.substr(0, file.size() - self.size()) : std::string_view();
}

/// The word of an error reply that tells of the machine and was not in the request; nullopt when there is none.
inline std::optional<std::string> leaked(std::string_view reply, std::string_view request) {
  static constexpr std::array<std::string_view, 10> always{
      "/tmp/", "/home", "/usr/", "/opt/", "/root", "/proc/", "/build/", "Exception raised from", ".cpp:", "frame #"};
  std::vector<std::string_view> telling(always.begin(), always.end());
  if (const auto folder = source_folder(); folder.size() > 1) telling.push_back(folder);
  const auto own = [&](std::size_t at) {  // a word of the request, or as much of it as is shown
    const auto word = reply.substr(at, std::min<std::size_t>(reply.find_first_of(" \"'\\,;)", at) - at, 24));
    return request.find(word) != request.npos || percent_decoded(request).find(word) != std::string::npos;
  };
  const auto shown = [&](std::size_t at) { return std::string(reply.substr(at < 20 ? 0 : at - 20, 80)); };
  for (const auto text : telling) {
    for (auto at = reply.find(text); at != reply.npos; at = reply.find(text, at + 1)) {
      if (!own(at)) return shown(at);
    }
  }
  for (const auto at : {find_address(reply), find_library(reply)}) {
    if (at != reply.npos && !own(at)) return shown(at);
  }
  return std::nullopt;
}

/// Ends the test program with what leaked: clients run on many threads, where Catch cannot take a failure.
/// `request`: all that the client has sent for this reply.
inline void demand_no_leak(unsigned status, std::string_view reply, std::string_view request) {
  if (status < 400) return;
  const auto word = leaked(reply, request);
  if (!word) return;
  std::fprintf(stderr, "an error reply (%u) tells of the machine: ...%s...\n", status, word->c_str());
  std::abort();
}

}  // namespace mme::test
