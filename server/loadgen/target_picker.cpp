// Choice by weight over running sums.
// The standard's discrete_distribution may differ between libraries; this does not.
#include "server/loadgen/target_picker.hpp"

#include <algorithm>
#include <cmath>

namespace mme::server {

std::vector<double> zipf_weights(std::size_t count, double skew) {
  std::vector<double> weights;
  weights.reserve(count);
  for (std::size_t k = 1; k <= count; ++k) weights.push_back(std::pow(static_cast<double>(k), -skew));
  return weights;
}

TargetPicker::TargetPicker(const std::vector<double>& weights, std::uint64_t seed) : engine_(seed) {
  double sum = 0;
  for (const double weight : weights) bounds_.push_back(sum += weight);
}

std::size_t TargetPicker::next() {
  constexpr double kUnit = 0x1p-53;  // 53 random bits: a double from 0 to below 1
  const double point = static_cast<double>(engine_() >> 11) * kUnit * bounds_.back();
  const auto found = std::upper_bound(bounds_.begin(), bounds_.end(), point);
  // Rounding may lift the point to the very end; the last target that has a weight is meant then.
  if (found == bounds_.end())
    return static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), bounds_.back()) - bounds_.begin());
  return static_cast<std::size_t>(found - bounds_.begin());
}

}  // namespace mme::server
