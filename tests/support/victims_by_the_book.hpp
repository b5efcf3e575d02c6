// The naive reference of rule R7: slow, and written as the rule is worded.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "cache/victims.hpp"

namespace mme::test {

using Indices = std::vector<std::size_t>;

/// R7 word by word, each gain counted anew.
inline std::optional<Indices> by_the_book(std::span<const cache::Candidate> candidates, std::size_t need) {
  const auto gain = [&](const Indices& chosen) {
    std::size_t bytes = 0;
    std::map<cache::SegmentRecord*, std::size_t> held;
    for (const std::size_t i : chosen) {
      bytes += candidates[i].own_bytes;
      for (cache::SegmentRecord* segment : candidates[i].segments) {
        ++held[segment];
      }
    }
    for (const auto& [segment, count] : held) {
      bytes += count == segment->live() ? segment->bytes : 0;
    }
    return bytes;
  };
  Indices chosen;
  for (std::size_t i = 0; i < candidates.size() && gain(chosen) < need; ++i) {
    chosen.push_back(i);
  }
  if (gain(chosen) < need) {
    return std::nullopt;
  }
  for (std::size_t i = chosen.size(); i-- > 0;) {
    Indices without = chosen;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (gain(without) >= need) {
      chosen = without;
    }
  }
  return chosen;
}

}  // namespace mme::test
