#include "loader/torch/record_scan.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace mme::loader {
namespace {

constexpr std::size_t deepest_brackets = 1000;

/// Walks opcodes; each is one byte and then operands whose length it implies or states.
class PickleWalk {
 public:
  explicit PickleWalk(std::string_view bytes) : bytes_(bytes) {}

  std::optional<std::string> run() {
    while (at_ < bytes_.size()) {
      const char opcode = bytes_[at_++];
      if (opcode == '.') return std::nullopt;
      if (auto problem = step(opcode)) return problem;
    }
    return "it ends in the middle";
  }

 private:
  std::optional<std::string> step(char opcode) {
    switch (opcode) {
      case '(':
      case 'N':
      case 'R':
      case 'a':
      case 'b':
      case '}':
      case 'e':
      case ']':
      case 's':
      case 't':
      case ')':
      case 'u':
      case 'Q':
      case '0':
      case '1':
      case '2':
      case '\x81':
      case '\x85':
      case '\x86':
      case '\x87':
      case '\x88':
      case '\x89': return std::nullopt;
      case 'K':
      case 'h':
      case '\x80': return skip(1);
      case 'M': return skip(2);
      case 'J':
      case 'j': return skip(4);
      case 'G': return skip(8);
      case 'q': return memo(1);
      case 'r': return memo(4);
      case 'U':
      case '\x8a':
      case '\x8c': return skip_counted(1);
      case 'X':
      case 'T':
      case 'B': return skip_counted(4);
      case 'c': return skip_lines(2);
      default: return "it holds an instruction that no TorchScript file has";
    }
  }

  std::optional<std::string> skip(std::uint64_t count) {
    if (bytes_.size() - at_ < count) return "it declares more bytes than it has";
    at_ += count;
    return std::nullopt;
  }

  std::optional<std::uint64_t> number(std::size_t width) {
    if (bytes_.size() - at_ < width) return std::nullopt;
    std::uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, width);  // little-endian, as we are
    at_ += width;
    return value;
  }

  std::optional<std::string> skip_counted(std::size_t width) {
    const auto count = number(width);
    return count ? skip(*count) : "it ends in the middle";
  }

  /// Writers number the memo from zero on, so a number can never exceed the instructions so far.
  std::optional<std::string> memo(std::size_t width) {
    const auto index = number(width);
    if (!index) return "it ends in the middle";
    if (*index > memoized_) return "it numbers its objects out of order";
    if (*index == memoized_) ++memoized_;
    return std::nullopt;
  }

  std::optional<std::string> skip_lines(int count) {
    for (; count > 0; --count) {
      const std::size_t end = bytes_.find('\n', at_);
      if (end == std::string_view::npos) return "it ends in the middle";
      at_ = end + 1;
    }
    return std::nullopt;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::uint64_t memoized_ = 0;
};

/// Past a string literal that begins at `at`; TorchScript's printer writes no triple quotes.
std::size_t past_string(std::string_view code, std::size_t at) {
  const char quote = code[at++];
  while (at < code.size() && code[at] != quote && code[at] != '\n') at += code[at] == '\\' ? 2 : 1;
  return at;
}

/// Arguments of the call whose opening bracket is at `open`.
std::size_t arguments_of(std::string_view code, std::size_t open) {
  std::size_t commas = 0, depth = 0;
  bool pending = false;  // something since the last comma: writers end with a comma or without
  for (std::size_t at = open; at < code.size(); ++at) {
    const char c = code[at];
    if (c == '"' || c == '\'') at = past_string(code, at);
    if (c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ')' || c == ']' || c == '}') && --depth == 0) break;
    if (depth == 1 && c == ',') {
      ++commas;
      pending = false;
    } else if (at != open && c != ' ' && c != '\n') {
      pending = true;
    }
  }
  return commas + (pending ? 1 : 0);
}

}  // namespace

bool calls_old_quantized_conv(std::string_view code) {
  constexpr std::string_view prefix = "quantized.conv";
  constexpr std::size_t new_arguments = 4;  // input, packed weight, scale, zero point
  for (std::size_t at = 0; (at = code.find(prefix, at)) != std::string_view::npos;) {
    at += prefix.size();
    const std::size_t open = code.find('(', at);
    if (open == std::string_view::npos) return false;
    const std::string_view kind = code.substr(at, open - at);
    const bool plain = kind == "1d" || kind == "2d" || kind == "3d";
    const bool fused = kind == "1d_relu" || kind == "2d_relu" || kind == "3d_relu";
    if ((plain || fused) && arguments_of(code, open) > new_arguments) return true;
  }
  return false;
}

std::optional<std::string> problem_in_pickle(std::string_view pickle) {
  return PickleWalk(pickle).run();
}

std::optional<std::string> problem_in_code(std::string_view code) {
  std::size_t depth = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    const char c = code[at];
    if (c == '"' || c == '\'') at = past_string(code, at);
    if (c == '#') at = std::min(code.find('\n', at), code.size());
    if (c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ')' || c == ']' || c == '}') && depth > 0) --depth;
    if (depth > deepest_brackets) return "its code is nested too deeply";
  }
  return std::nullopt;
}

}  // namespace mme::loader
