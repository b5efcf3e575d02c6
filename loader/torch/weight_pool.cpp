#include "loader/torch/weight_pool.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace mme::loader {
namespace {

/// In memory, and what it was: a run whose file was cut is not.
bool is_whole(const WeightPool::Shared& shared) {
  return shared.run && !shared.run->map()->lost();
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

/// Kinds that are in memory no more are of use only to those that were proven to be of them; some are kept.
WeightPool::Kind& WeightPool::unused(Kinds& kinds) {
  if (kinds.size() >= most_compared) {
    std::erase_if(kinds, [](const Kind& kind) { return kind.had && kind.run.expired(); });
  }
  const auto found = std::ranges::find(kinds, false, &Kind::had);
  if (found != kinds.end()) return *found;
  return kinds.emplace_back(Kind{"weights:" + std::to_string(++made_), {}, false});
}

/// Contents that no model in memory has. Keys are never used again, so what was proven of them is merely of no use.
void WeightPool::forget_some() {
  if (contents_.size() < forget_at_) return;
  std::erase_if(contents_, [](const auto& entry) {
    return std::ranges::all_of(entry.second, [](const Kind& kind) { return kind.run.expired(); });
  });
  forget_at_ = std::max(most_contents, 2 * contents_.size());
}

std::string WeightPool::likely_key(const ArtifactId& artifact, const RunPlan& run) {
  const AccountScope nobody(nullptr);  // the tables are no model's
  const std::lock_guard lock(mutex_);
  forget_some();
  Kinds& kinds = contents_[run.content];
  if (const std::string* key = key_of(artifact, run.number)) {
    if (std::ranges::find(kinds, *key, &Kind::key) != kinds.end()) return *key;
  }
  const auto in_memory = std::ranges::find_if(kinds, [](const Kind& kind) { return !kind.run.expired(); });
  return in_memory != kinds.end() ? in_memory->key : unused(kinds).key;
}

WeightPool::Shared WeightPool::proven(const ArtifactId& artifact, const RunPlan& run) const {
  Shared found;  // let go of outside the lock, as it may be the last holder
  const AccountScope nobody(nullptr);
  const std::lock_guard lock(mutex_);
  const std::string* key = key_of(artifact, run.number);
  const auto kinds = key != nullptr ? contents_.find(run.content) : contents_.end();
  if (kinds == contents_.end()) return {};
  const auto kind = std::ranges::find(kinds->second, *key, &Kind::key);
  if (kind == kinds->second.end()) return {};
  found = {kind->key, kind->run.lock()};
  return is_whole(found) ? found : Shared{};
}

WeightPool::Shared WeightPool::publish(const ArtifactId& artifact, const RunPlan& run, Kinds& kinds,
                                       const std::shared_ptr<WeightRun>& own) {
  const std::string* known = key_of(artifact, run.number);
  const auto again = known != nullptr ? std::ranges::find(kinds, *known, &Kind::key) : kinds.end();
  Kind& kind = again != kinds.end() && again->run.expired() ? *again : unused(kinds);
  kind.run = own;
  kind.had = true;
  remember(artifact, run.number, kind.key);
  return {kind.key, own};
}

WeightPool::Shared WeightPool::share(const ArtifactId& artifact, const RunPlan& run,
                                     const std::shared_ptr<WeightRun>& own) {
  const AccountScope nobody(nullptr);
  std::set<std::string> others;
  for (;;) {
    Shared candidate;  // let go of outside the lock
    std::vector<std::shared_ptr<WeightRun>> lost;
    {
      const std::lock_guard lock(mutex_);
      Kinds& kinds = contents_[run.content];
      for (const Kind& kind : kinds) {
        if (others.size() >= most_compared || others.contains(kind.key)) continue;
        candidate = {kind.key, kind.run.lock()};
        if (is_whole(candidate)) break;
        if (candidate.run) lost.push_back(std::move(candidate.run));
      }
      if (!candidate.run) return publish(artifact, run, kinds, own);
    }
    if (candidate.run->holds_the_same_as(*own)) {
      const std::lock_guard lock(mutex_);
      remember(artifact, run.number, candidate.key);
      return candidate;
    }
    others.insert(candidate.key);
  }
}

WrittenWeights WeightPool::written(const ArtifactId& artifact) const {
  const AccountScope nobody(nullptr);  // an account that pays asks the cache, which must not be asked under our lock
  const std::lock_guard lock(mutex_);
  const auto found = written_.find(artifact);
  return found == written_.end() ? WrittenWeights{} : found->second;
}

void WeightPool::remember_written(const ArtifactId& artifact, WrittenWeights written) {
  const AccountScope nobody(nullptr);
  const std::lock_guard lock(mutex_);
  if (written_.size() >= most_artifacts && !written_.contains(artifact)) written_.clear();
  WrittenWeights& known = written_[artifact];
  const bool all = known.all || written.all;
  known = {all, all ? std::vector<std::size_t>() : std::move(written.weights)};
}

}  // namespace mme::loader
