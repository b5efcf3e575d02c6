#include "loader/repository/settings/yaml_lines.hpp"

#include <algorithm>
#include <cstddef>

namespace mme::loader {
namespace {

constexpr std::size_t kMostFindings = 100;

bool is_control(unsigned char c) noexcept {
  return (c < 0x20 && c != '\t') || c == 0x7f;
}

/// Empty when the line is fine.
std::string_view fault_in(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (std::any_of(line.begin(), line.end(), is_control)) return "a control character, this is no text file";
  const std::size_t tab = line.find('\t');
  if (tab < line.find('#')) return "a tab; indent and separate with spaces";
  if (line.starts_with('%')) return "directives (%) are not allowed";
  return {};
}

}  // namespace

std::vector<YamlProblem> check_yaml_lines(std::string_view text) {
  std::vector<YamlProblem> problems;
  for (int number = 1; !text.empty() && problems.size() < kMostFindings; ++number) {
    const std::size_t end = text.find('\n');
    const auto fault = fault_in(text.substr(0, end));
    if (!fault.empty()) problems.push_back({number, "", std::string(fault)});
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return problems;
}

}  // namespace mme::loader
