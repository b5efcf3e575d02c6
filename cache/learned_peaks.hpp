// What calls of a model took, by size of their inputs, so that the next one starts with room enough (R10).
// Learns maxima; grants nothing.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "cache/types.hpp"

namespace mme::cache {

/// Peaks of one artifact. Not thread-safe.
class LearnedPeaks {
 public:
  void learn(std::size_t input_bytes, std::size_t peak) noexcept {
    auto& known = peaks_[bucket(input_bytes)];
    known = std::max(known.value_or(0), peak);
  }
  [[nodiscard]] std::optional<std::size_t> peak(std::size_t input_bytes) const noexcept {
    return peaks_[bucket(input_bytes)];
  }
  /// The peak of the smallest inputs seen: what a call of batch 1 takes, as far as is known.
  [[nodiscard]] std::size_t smallest() const noexcept {
    for (const auto& known : peaks_) {
      if (known) {
        return *known;
      }
    }
    return 0;
  }

 private:
  [[nodiscard]] static std::size_t bucket(std::size_t bytes) noexcept {
    return static_cast<std::size_t>(std::bit_width(bytes));
  }
  std::array<std::optional<std::size_t>, 65> peaks_;  ///< one per power of two, and one for no input at all
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

 private:
  std::map<loader::ArtifactId, std::shared_ptr<LearnedPeaks>> peaks_;
  std::deque<loader::ArtifactId> order_;
};

}  // namespace mme::cache
