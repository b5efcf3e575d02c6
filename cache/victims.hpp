// Which models leave when room is needed: rule R7 as a pure function.
// Evicts nothing and does not know who may be a candidate.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cache/segments.hpp"

namespace mme::cache {

/// A model that may go.
struct Candidate {
  std::size_t own_bytes = 0;                 ///< held by nobody else: private weights and code
  std::span<SegmentRecord* const> segments;  ///< each once
};

/// Candidates in order of use, least recent first. Adds from the front until the bytes that would come free (own bytes,
/// and segments all of whose live holders are chosen) reach `need`; then, from the most recent backwards, drops each
/// one without which they still do. Returns ascending indices; nullopt when all of them together are not enough.
[[nodiscard]] std::optional<std::vector<std::size_t>> choose_victims(std::span<const Candidate> candidates,
                                                                     std::size_t need);

}  // namespace mme::cache
