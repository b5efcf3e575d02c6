// What is remembered of failed loads.
// Bounded in number and in time.
#include "cache/broken_memory.hpp"

#include <utility>

namespace mme::cache {

void BrokenMemory::drop_oldest() {
  const Turn& turn = order_.front();
  const auto found = errors_.find(turn.artifact);
  if (found != errors_.end() && found->second.since == turn.since) {
    errors_.erase(found);
  }
  order_.pop_front();
}

void BrokenMemory::remember(const loader::ArtifactId& artifact, Error error, TimePoint now) {
  while (!order_.empty() && (order_.size() >= capacity || now - order_.front().since >= keep)) {
    drop_oldest();
  }
  errors_[artifact] = Remembered{std::move(error), now};
  order_.push_back({artifact, now});
}

void BrokenMemory::forget(const loader::ArtifactId& artifact) {
  errors_.erase(artifact);
}

const Error* BrokenMemory::find(const loader::ArtifactId& artifact, TimePoint now) const {
  const auto found = errors_.find(artifact);
  return found == errors_.end() || now - found->second.since >= keep ? nullptr : &found->second.error;
}

}  // namespace mme::cache
