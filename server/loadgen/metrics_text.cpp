// A small reader of `name{label="value",...} number`.
// Escapes in label values are \\, \" and \n, as the format says.
#include "server/loadgen/metrics_text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace mme::server {
namespace {

void skip_spaces(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

bool skip(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

std::string take_name(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[length])) != 0 || text[length] == '_' || text[length] == ':')) {
    ++length;
  }
  std::string name(text.substr(0, length));
  text.remove_prefix(length);
  return name;
}

/// The rest of a quoted value, its opening quote already taken; nullopt when it does not end.
std::optional<std::string> take_value(std::string_view& text) {
  std::string value;
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '"') return value;
    if (c != '\\') {
      value += c;
      continue;
    }
    if (text.empty()) return std::nullopt;
    value += text.front() == 'n' ? '\n' : text.front();
    text.remove_prefix(1);
  }
  return std::nullopt;
}

bool take_labels(std::string_view& text, std::map<std::string, std::string>& labels) {
  if (!skip(text, '{')) return true;
  while (!skip(text, '}')) {
    const std::string name = take_name(text);
    if (name.empty() || !skip(text, '=') || !skip(text, '"')) return false;
    std::optional<std::string> value = take_value(text);
    if (!value) return false;
    labels[name] = std::move(*value);
    skip(text, ',');
    skip_spaces(text);
  }
  return true;
}

std::optional<MetricSample> read_line(std::string_view line) {
  MetricSample sample;
  sample.name = take_name(line);
  if (sample.name.empty() || !take_labels(line, sample.labels)) return std::nullopt;
  skip_spaces(line);
  skip(line, '+');  // from_chars reads "Inf" but not "+Inf"
  const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), sample.value);
  if (problem != std::errc()) return std::nullopt;
  return sample;
}

}  // namespace

MetricsText::MetricsText(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (auto sample = read_line(text.substr(0, end))) samples_.push_back(std::move(*sample));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

double MetricsText::sum(std::string_view name, const std::map<std::string, std::string>& labels) const {
  double total = 0;
  for (const MetricSample& sample : samples_) {
    const bool fits = sample.name == name && std::all_of(labels.begin(), labels.end(), [&](const auto& wanted) {
                        const auto found = sample.labels.find(wanted.first);
                        return found != sample.labels.end() && found->second == wanted.second;
                      });
    if (fits) total += sample.value;
  }
  return total;
}

bool MetricsText::has(std::string_view name) const {
  return std::any_of(samples_.begin(), samples_.end(), [&](const MetricSample& s) { return s.name == name; });
}

}  // namespace mme::server
