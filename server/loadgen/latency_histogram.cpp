// Log-linear buckets: 32 to each doubling.
// No interpolation inside a bucket; its upper end is reported.
#include "server/loadgen/latency_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace mme::server {
namespace {

constexpr unsigned kSteps = 32;          // buckets in each doubling
constexpr unsigned kExact = 2 * kSteps;  // values below have a bucket each
constexpr unsigned kExactBits = 6;       // bit_width(kExact - 1)

std::size_t bucket_of(std::uint64_t value) {
  if (value < kExact) return value;
  const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kExactBits;
  return kExact + (shift - 1) * kSteps + ((value >> shift) - kSteps);
}

std::uint64_t upper_end(std::size_t bucket) {
  if (bucket < kExact) return bucket;
  const std::size_t shift = (bucket - kExact) / kSteps + 1;
  const std::uint64_t step = (bucket - kExact) % kSteps + kSteps;
  return ((step + 1) << shift) - 1;
}

}  // namespace

void LatencyHistogram::add(std::chrono::nanoseconds latency) {
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(latency).count();
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(whole, 0));
  const std::size_t bucket = bucket_of(value);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  ++count_;
  max_ = std::max(max_, value);
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  if (other.buckets_.size() > buckets_.size()) buckets_.resize(other.buckets_.size());
  for (std::size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

std::chrono::microseconds LatencyHistogram::percentile(double share) const {
  const double wanted = std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(count_));
  const auto rank = std::max<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::chrono::microseconds(std::min(upper_end(i), max_));
  }
  return std::chrono::microseconds(0);
}

}  // namespace mme::server
