// The ledger's memory of contents: what corrects an estimate, what a load teaches (R9, R10).
// What is remembered and for how long is LearnedFacts' business.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "cache/ledger.hpp"

namespace mme::cache {

/// What is known of this very content corrects the estimate, and its peaks are the entry's.
void Ledger::recall(Entry& entry) {
  entry.told_bytes = entry.estimate.private_bytes;
  entry.facts = facts_.of(entry.estimate.digest);
  if (!entry.facts) {
    return;
  }
  if (entry.peaks.get() != &entry.facts->peaks) {
    entry.facts->peaks.merge(*entry.peaks);
    entry.peaks = std::shared_ptr<LearnedPeaks>(entry.facts, &entry.facts->peaks);
    peaks_.share(entry.spec.artifact, entry.peaks);
  }
  if (entry.facts->measured()) {
    entry.estimate.private_bytes = private_bytes(*entry.facts, entry.estimate);
  }
}

/// R9: a learned figure must not refuse what the loader's own would load, for it may be wrong, and a load can ask for
/// more while it reads. True when the claim was lowered.
bool Ledger::claim_as_told(Entry& entry) noexcept {
  if (entry.estimate.private_bytes <= entry.told_bytes) {
    return false;
  }
  entry.estimate.private_bytes = entry.told_bytes;
  return true;
}

/// Remembers what a load took; what is worth telling of it.
std::vector<Event> Ledger::take_in_sizes(Entry& entry, const Loaded& loaded) {
  if (!entry.facts) {
    return {};
  }
  // No load held more outside segments than its grant, whatever its loader counts in.
  LoadMeasure load{loaded.footprint.private_bytes + loaded.footprint.code_bytes, 0,
                   std::min(loaded.peak_bytes, entry.claimed), 0};
  for (const loader::Segment& segment : entry.estimate.segments) {
    load.given_bytes += segment.bytes;
  }
  std::unordered_set<std::string_view> counted;
  for (const loader::Segment& segment : loaded.footprint.segments) {
    load.segment_bytes += counted.insert(segment.key).second ? segment.bytes : 0;
  }
  std::vector<Event> news;
  if (const auto learned = facts_.measured(*entry.facts, load)) {
    news.emplace_back(SizeDrifted{entry.spec, *learned, load.total()});
  }
  if (const auto before = facts_.loaded_as(entry.spec.name, entry.facts->digest, load.total())) {
    news.emplace_back(ModelGrew{entry.spec, *before, load.total()});
  }
  return news;
}

}  // namespace mme::cache
