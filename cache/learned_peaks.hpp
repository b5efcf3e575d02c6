// What calls of a model took, by size of their inputs, so that the next one starts with room enough (R10).
// Learns maxima; grants nothing.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "loader/model.hpp"

namespace mme::cache {

/// Peaks of one artifact. Not thread-safe.
class LearnedPeaks {
 public:
  /// One per power of two, and one for no input at all.
  static constexpr std::size_t buckets = 65;

  LearnedPeaks() noexcept { peaks_.fill(unknown); }
  /// True when that was news.
  bool learn(std::size_t input_bytes, std::size_t peak) noexcept { return raise(bucket(input_bytes), peak); }
  bool raise(std::size_t bucket, std::size_t peak) noexcept {
    std::size_t& known = peaks_[bucket];
    if (known != unknown && peak <= known) {
      return false;
    }
    known = std::min(peak, unknown - 1);
    return true;
  }
  void merge(const LearnedPeaks& other) noexcept {
    other.each([&](std::size_t bucket, std::size_t peak) { raise(bucket, peak); });
  }
  [[nodiscard]] std::optional<std::size_t> peak(std::size_t input_bytes) const noexcept {
    const std::size_t known = peaks_[bucket(input_bytes)];
    return known == unknown ? std::nullopt : std::optional(known);
  }
  /// The peak of the smallest inputs seen: what a call of batch 1 takes, as far as is known.
  [[nodiscard]] std::size_t smallest() const noexcept {
    for (const std::size_t known : peaks_) {
      if (known != unknown) {
        return known;
      }
    }
    return 0;
  }
  /// Those that are known, by bucket.
  template <class Visit>
  void each(Visit visit) const {
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      if (peaks_[bucket] != unknown) {
        visit(bucket, peaks_[bucket]);
      }
    }
  }

 private:
  static constexpr std::size_t unknown = SIZE_MAX;
  [[nodiscard]] static std::size_t bucket(std::size_t bytes) noexcept {
    return static_cast<std::size_t>(std::bit_width(bytes));
  }
  std::array<std::size_t, buckets> peaks_;
};

/// Peaks by artifact, kept beyond evictions for the artifacts seen last. Not thread-safe.
class PeakMemory {
 public:
  static constexpr std::size_t capacity = 4'096;

  [[nodiscard]] std::shared_ptr<LearnedPeaks> of(const loader::ArtifactId& artifact) {
    auto& peaks = peaks_[artifact];
    if (!peaks) {
      peaks = std::make_shared<LearnedPeaks>();
      order_.push_back(artifact);
      if (order_.size() > capacity) {
        peaks_.erase(order_.front());
        order_.pop_front();
      }
    }
    return peaks;
  }
  /// From now on the artifact's peaks are those of another one with the same content, too.
  void share(const loader::ArtifactId& artifact, std::shared_ptr<LearnedPeaks> peaks) {
    if (of(artifact) != peaks) {
      peaks_[artifact] = std::move(peaks);
    }
  }

 private:
  std::map<loader::ArtifactId, std::shared_ptr<LearnedPeaks>> peaks_;
  std::deque<loader::ArtifactId> order_;
};

}  // namespace mme::cache
