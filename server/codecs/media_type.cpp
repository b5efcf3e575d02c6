#include "server/codecs/media_type.hpp"

#include <algorithm>

namespace mme::server {
namespace {

constexpr int kFull = 1000;

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kSpace = " \t";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// Takes the part before the next `separator` off the front of `rest`.
std::string_view next_part(std::string_view& rest, char separator) noexcept {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return trimmed(part);
}

/// 2 exact, 1 `application/*`, 0 `*/*`, -1 no match.
int specificity(std::string_view range, std::string_view type) noexcept {
  if (same_type(range, type)) return 2;
  if (range == "*/*") return 0;
  const std::size_t slash = type.find('/') + 1;
  return range.ends_with("/*") && same_type(range.substr(0, range.size() - 1), type.substr(0, slash)) ? 1 : -1;
}

/// "0.25" as 250. A malformed weight counts as none given.
int parse_weight(std::string_view text) noexcept {
  if (text.empty() || (text[0] != '0' && text[0] != '1')) return kFull;
  int weight = (text[0] - '0') * kFull;
  if (text.size() > 1 && text[1] != '.') return kFull;
  int unit = kFull / 10;
  for (const char c : text.substr(std::min<std::size_t>(2, text.size()))) {
    if (c < '0' || c > '9') return kFull;
    weight += (c - '0') * unit;
    unit /= 10;
  }
  return std::min(weight, kFull);
}

int weight_of(std::string_view parameters) noexcept {
  while (!parameters.empty()) {
    const std::string_view parameter = next_part(parameters, ';');
    if (parameter.starts_with("q=") || parameter.starts_with("Q=")) return parse_weight(trimmed(parameter.substr(2)));
  }
  return kFull;
}

}  // namespace

std::string_view without_parameters(std::string_view content_type) noexcept {
  return next_part(content_type, ';');
}

bool same_type(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

int accept_quality(std::string_view accept, std::string_view type) noexcept {
  if (trimmed(accept).empty()) return kFull;
  int best = -1;
  int quality = 0;
  while (!accept.empty()) {
    std::string_view entry = next_part(accept, ',');
    const std::string_view range = next_part(entry, ';');
    const int match = specificity(range, type);
    if (match <= best) continue;
    best = match;
    quality = weight_of(entry);
  }
  return quality;
}

}  // namespace mme::server
