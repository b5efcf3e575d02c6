// Runs of weights that models in memory hold, by what is in them: whoever comes with equal ones holds the same.
// Equal is proven by comparing bytes, once for each file. No libtorch; decides nothing about who may share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "loader/model.hpp"
#include "loader/torch/weight_run.hpp"
#include "loader/torch/weight_runs.hpp"

namespace mme::loader {

/// A kind is one content: sizes and checksums say which kinds a run may be of, its bytes which one it is. The key of a
/// kind is never used for another. Members may be called from any thread.
class WeightPool {
 public:
  struct Shared {
    std::string key;
    std::shared_ptr<WeightRun> run;
  };

  /// The key that a run of an artifact is likely to have: the one it was proven to have, else that of a run in memory
  /// that looks the same, else one that nobody has had.
  [[nodiscard]] std::string likely_key(const ArtifactId& artifact, const RunPlan& run);
  /// The run in memory that this one was proven to equal before; null when there is none.
  [[nodiscard]] Shared proven(const ArtifactId& artifact, const RunPlan& run) const;
  /// A run in memory that equals `own`, or `own` itself, which others find from now on. Reads both to compare them;
  /// after some that look the same and differ it looks no further.
  [[nodiscard]] Shared share(const ArtifactId& artifact, const RunPlan& run, const std::shared_ptr<WeightRun>& own);

  /// What calls may write to of an artifact's weights, as its first load showed; none when that is not known.
  [[nodiscard]] WrittenWeights written(const ArtifactId& artifact) const;
  /// Once all, always all.
  void remember_written(const ArtifactId& artifact, WrittenWeights written);

 private:
  static constexpr std::size_t most_artifacts = 2'048;
  static constexpr std::size_t most_contents = 65'536;
  static constexpr std::size_t most_compared = 8;

  struct Kind {
    std::string key;
    std::weak_ptr<WeightRun> run;
    bool had = false;  ///< some run had it: only one that was proven to be equal may have it again
  };
  using Kinds = std::vector<Kind>;

  [[nodiscard]] const std::string* key_of(const ArtifactId& artifact, std::size_t number) const;
  void remember(const ArtifactId& artifact, std::size_t number, const std::string& key);
  [[nodiscard]] Kind& unused(Kinds& kinds);
  [[nodiscard]] Shared publish(const ArtifactId& artifact, const RunPlan& run, Kinds& kinds,
                               const std::shared_ptr<WeightRun>& own);
  void forget_some();

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Kinds> contents_;
  std::map<ArtifactId, std::vector<std::string>> proven_;
  std::map<ArtifactId, WrittenWeights> written_;
  std::size_t forget_at_ = most_contents;
  std::uint64_t made_ = 0;
};

}  // namespace mme::loader
