// Counts durations in buckets that grow with them, so that percentiles cost the same after a million requests.
// No clock and no threads: who measures adds.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace mme::server {

/// Whole microseconds, exact below 64 us, within 1/32 above. Not synchronised.
class LatencyHistogram {
 public:
  void add(std::chrono::nanoseconds latency);
  void merge(const LatencyHistogram& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::chrono::microseconds max() const { return std::chrono::microseconds(max_); }

  /// The smallest bucket bound that at least `share` (0 to 1) of the values do not exceed, never above max();
  /// zero when there are no values.
  [[nodiscard]] std::chrono::microseconds percentile(double share) const;

 private:
  std::vector<std::uint64_t> buckets_;  ///< as long as the largest value needs
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace mme::server
