#include "loader/torch/code_text.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace mme::loader {
namespace {

/// An indented line that declares a constant of a class. Others that look like it do no harm: they would be sorted in
/// every archive alike, and only lines next to each other.
bool declares_final(std::string_view line) {
  return line.starts_with("  ") && line.find(" : Final[") != std::string_view::npos;
}

std::string_view take_line(std::string_view& rest) {
  const auto end = rest.find('\n');
  const std::string_view line = rest.substr(0, end == std::string_view::npos ? end : end + 1);
  rest.remove_prefix(line.size());
  return line;
}

}  // namespace

std::string with_sorted_finals(std::string_view code) {
  std::string sorted;
  sorted.reserve(code.size());
  std::vector<std::string_view> finals;
  const auto flush = [&] {
    std::ranges::sort(finals);
    for (const std::string_view line : finals) sorted += line;
    finals.clear();
  };
  for (std::string_view rest = code; !rest.empty();) {
    const std::string_view line = take_line(rest);
    if (declares_final(line)) {
      finals.push_back(line);
    } else {
      flush();
      sorted += line;
    }
  }
  flush();
  return sorted;
}

void CodeText::add(std::string_view name, std::string_view bytes) {
  text_ += std::to_string(name.size()) + ':' + std::to_string(bytes.size()) + ':';
  text_ += name;
  text_ += bytes;
}

}  // namespace mme::loader
