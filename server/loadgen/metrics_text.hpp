// Reads a Prometheus text page: the samples, by name and labels.
// No types, no help texts, no time stamps; a line that cannot be read is skipped.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mme::server {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

class MetricsText {
 public:
  explicit MetricsText(std::string_view text);

  [[nodiscard]] const std::vector<MetricSample>& samples() const { return samples_; }
  /// Sum of the samples of that name that carry all the given labels (others may be there too); 0 when there is none.
  [[nodiscard]] double sum(std::string_view name, const std::map<std::string, std::string>& labels = {}) const;
  /// Whether there is a sample of that name.
  [[nodiscard]] bool has(std::string_view name) const;

 private:
  std::vector<MetricSample> samples_;
};

}  // namespace mme::server
