// Which models leave when room is needed.
// One pass forward, one pass back, with a running gain; no state kept.
#include "cache/victims.hpp"

#include <unordered_map>

namespace mme::cache {
namespace {

/// The bytes that come free when the chosen ones go, kept up to date as they are added and dropped.
class Gain {
 public:
  void add(const Candidate& candidate) {
    bytes_ += candidate.own_bytes;
    for (const SegmentRecord* segment : candidate.segments) {
      if (++chosen_[segment] == segment->live()) {
        bytes_ += segment->bytes;
      }
    }
  }
  void drop(const Candidate& candidate) {
    bytes_ -= loss(candidate);
    for (const SegmentRecord* segment : candidate.segments) {
      --chosen_[segment];
    }
  }
  /// What dropping a chosen candidate would take away.
  [[nodiscard]] std::size_t loss(const Candidate& candidate) {
    std::size_t bytes = candidate.own_bytes;
    for (const SegmentRecord* segment : candidate.segments) {
      bytes += chosen_[segment] == segment->live() ? segment->bytes : 0;
    }
    return bytes;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_ = 0;
  std::unordered_map<const SegmentRecord*, std::size_t> chosen_;
};

}  // namespace

std::optional<std::vector<std::size_t>> choose_victims(std::span<const Candidate> candidates, std::size_t need) {
  Gain gain;
  std::size_t end = 0;
  for (; end < candidates.size() && gain.bytes() < need; ++end) {
    gain.add(candidates[end]);
  }
  if (gain.bytes() < need) {
    return std::nullopt;
  }
  std::vector<bool> chosen(end, true);
  for (std::size_t i = end; i-- > 0;) {
    if (gain.bytes() - gain.loss(candidates[i]) >= need) {
      gain.drop(candidates[i]);
      chosen[i] = false;
    }
  }
  std::vector<std::size_t> victims;
  for (std::size_t i = 0; i < end; ++i) {
    if (chosen[i]) {
      victims.push_back(i);
    }
  }
  return victims;
}

}  // namespace mme::cache
