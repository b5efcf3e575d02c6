// What is remembered of failed loads: which artifacts are broken, for a short while (R12).
// Remembers only what it is told; that only model_broken is worth telling is the ledger's rule.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>

#include "cache/types.hpp"

namespace mme::cache {

/// Not thread-safe. Holds at most `capacity` artifacts, each for `keep`; the oldest goes first.
class BrokenMemory {
 public:
  static constexpr std::size_t capacity = 1'000;
  static constexpr std::chrono::seconds keep{10};

  void remember(const loader::ArtifactId& artifact, Error error, TimePoint now);
  void forget(const loader::ArtifactId& artifact);
  /// The error of the last try, or null when there is none worth repeating.
  [[nodiscard]] const Error* find(const loader::ArtifactId& artifact, TimePoint now) const;
  [[nodiscard]] std::size_t size() const noexcept { return errors_.size(); }

 private:
  struct Remembered {
    Error error;
    TimePoint since;
  };
  struct Turn {
    loader::ArtifactId artifact;
    TimePoint since;
  };
  void drop_oldest();
  std::map<loader::ArtifactId, Remembered> errors_;
  std::deque<Turn> order_;  ///< oldest first; may name artifacts forgotten or remembered anew since
};

}  // namespace mme::cache
