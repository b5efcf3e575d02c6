// Chooses which target the next request goes to, by weight and seed.
// No clock, no threads; the same seed gives the same choices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace mme::server {

/// Weights of `count` targets of which the k-th (from 1) is asked for 1 / k^skew as often as the first. skew 0: equal.
[[nodiscard]] std::vector<double> zipf_weights(std::size_t count, double skew);

class TargetPicker {
 public:
  /// `weights`: not empty, none negative, not all zero.
  TargetPicker(const std::vector<double>& weights, std::uint64_t seed);
  [[nodiscard]] std::size_t next();

 private:
  std::vector<double> bounds_;  ///< running sums of the weights
  std::mt19937_64 engine_;
};

}  // namespace mme::server
