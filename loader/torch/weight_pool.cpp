#include "loader/torch/weight_pool.hpp"

#include <algorithm>
#include <utility>

namespace mme::loader {
namespace {

/// A run whose file was cut is no longer what it was.
std::shared_ptr<WeightRun> alive(const std::weak_ptr<WeightRun>& weak) {
  auto run = weak.lock();
  if (run && run->map()->lost()) run.reset();
  return run;
}

}  // namespace

const std::string* WeightPool::key_of(const ArtifactId& artifact, std::size_t number) const {
  const auto found = proven_.find(artifact);
  if (found == proven_.end() || number >= found->second.size() || found->second[number].empty()) return nullptr;
  return &found->second[number];
}

void WeightPool::remember(const ArtifactId& artifact, std::size_t number, const std::string& key) {
  if (proven_.size() >= most_artifacts && !proven_.contains(artifact)) proven_.clear();
  auto& keys = proven_[artifact];
  if (keys.size() <= number) keys.resize(number + 1);
  keys[number] = key;
}

WeightPool::Kind& WeightPool::unused(Kinds& kinds) {
  const auto found = std::ranges::find(kinds, false, &Kind::had);
  if (found != kinds.end()) return *found;
  return kinds.emplace_back(Kind{"weights:" + std::to_string(++made_), {}, false});
}

/// Contents that no model in memory has. Keys are never used again, so what was proven of them is merely of no use.
void WeightPool::forget_some() {
  if (contents_.size() < most_contents) return;
  std::erase_if(contents_, [](const auto& entry) {
    return std::ranges::all_of(entry.second, [](const Kind& kind) { return kind.run.expired(); });
  });
}

std::string WeightPool::likely_key(const ArtifactId& artifact, std::size_t number, const RunPlan& run) {
  const std::lock_guard lock(mutex_);
  if (const std::string* key = key_of(artifact, number)) return *key;
  forget_some();
  Kinds& kinds = contents_[run.content];
  const auto in_memory = std::ranges::find_if(kinds, [](const Kind& kind) { return !kind.run.expired(); });
  return in_memory != kinds.end() ? in_memory->key : unused(kinds).key;
}

WeightPool::Shared WeightPool::proven(const ArtifactId& artifact, std::size_t number, const RunPlan& run) const {
  const std::lock_guard lock(mutex_);
  const std::string* key = key_of(artifact, number);
  const auto kinds = key != nullptr ? contents_.find(run.content) : contents_.end();
  if (kinds == contents_.end()) return {};
  const auto kind = std::ranges::find(kinds->second, *key, &Kind::key);
  return kind == kinds->second.end() ? Shared{} : Shared{kind->key, alive(kind->run)};
}

WeightPool::Shared WeightPool::publish(const ArtifactId& artifact, std::size_t number, Kinds& kinds,
                                       const std::shared_ptr<WeightRun>& own) {
  const std::string* known = key_of(artifact, number);
  const auto again = known != nullptr ? std::ranges::find(kinds, *known, &Kind::key) : kinds.end();
  Kind& kind = again != kinds.end() && !alive(again->run) ? *again : unused(kinds);
  kind.run = own;
  kind.had = true;
  remember(artifact, number, kind.key);
  return {kind.key, own};
}

WeightPool::Shared WeightPool::share(const ArtifactId& artifact, std::size_t number, const RunPlan& run,
                                     const std::shared_ptr<WeightRun>& own) {
  std::set<std::string> others;
  for (;;) {
    Shared candidate;  // may turn out to be the last holder: let go of outside the lock
    {
      const std::lock_guard lock(mutex_);
      Kinds& kinds = contents_[run.content];
      for (const Kind& kind : kinds) {
        if (candidate.run || others.contains(kind.key)) continue;
        candidate = {kind.key, alive(kind.run)};
      }
      if (!candidate.run) return publish(artifact, number, kinds, own);
    }
    if (candidate.run->holds_the_same_as(*own)) {
      const std::lock_guard lock(mutex_);
      remember(artifact, number, candidate.key);
      return candidate;
    }
    others.insert(candidate.key);
  }
}

bool WeightPool::keeps_to_itself(const ArtifactId& artifact) const {
  const std::lock_guard lock(mutex_);
  return to_themselves_.contains(artifact);
}

void WeightPool::remember_to_itself(const ArtifactId& artifact) {
  const std::lock_guard lock(mutex_);
  if (to_themselves_.size() >= most_artifacts) to_themselves_.clear();
  to_themselves_.insert(artifact);
}

}  // namespace mme::loader
