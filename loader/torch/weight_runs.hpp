// Which weights of an archive are mapped, charged and shared as one. Pure arithmetic.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "loader/torch/archive_check.hpp"

namespace mme::loader {

/// Weights that lie next to each other in the file. A large one is a run of its own, small ones are taken together: so
/// a fine-tune shares every weight but those that it changed, and a run is worth its entry in the books.
struct RunPlan {
  std::size_t number = 0;            ///< among all runs that may be planned for an archive
  std::vector<std::size_t> weights;  ///< indices into ArchivePlan::weights, in the order of the file
  ByteRange span;                    ///< from the first byte to the last
  std::size_t bytes = 0;  ///< what it is charged: a little more than the pages that hold it; equal for equal contents
  std::string content;    ///< a hash of sizes and checksums: what equal runs have in common
};

/// Archives with more are copied: each run is a part of a map, and an entry in the books.
inline constexpr std::size_t most_runs = 16'384;

/// Weights that calls may write to, so that a model needs them as copies of its own.
struct WrittenWeights {
  bool all = false;
  std::vector<std::size_t> weights;  ///< if not all: indices into ArchivePlan::weights, ascending

  [[nodiscard]] bool contains(std::size_t weight) const;
  [[nodiscard]] bool contains_all(const RunPlan& run) const;
};

/// Of all weights that can be mapped; those of constants/ only `with_constants`. Runs of nothing but `written` weights
/// are left out; others stay whole, to be the same as those of models that only read. None when there are more than
/// most_runs.
[[nodiscard]] std::vector<RunPlan> plan_runs(const ArchivePlan& plan, bool with_constants,
                                             const WrittenWeights& written = {});

}  // namespace mme::loader
