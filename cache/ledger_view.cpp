// The ledger as others see it: who is in memory, how much it is charged, who goes next.
// Changes nothing.
#include <algorithm>
#include <unordered_map>

#include "cache/ledger.hpp"

namespace mme::cache {
namespace {

double seconds(std::chrono::nanoseconds span) {
  return std::chrono::duration<double>(span).count();
}

/// On its way out already, but for the calls that still run.
bool drains(const Entry& entry) {
  return entry.phase == Phase::ready && entry.doomed;
}

ModelState state_of(const Entry& entry) {
  switch (entry.phase) {
    case Phase::ready: return drains(entry) ? ModelState::evicting : ModelState::ready;
    case Phase::evicting: return ModelState::evicting;
    default: return ModelState::loading;
  }
}

std::string stage_of(Phase phase) {
  switch (phase) {
    case Phase::estimating: return "estimating";
    case Phase::queued: return "queued";
    case Phase::reading: return "reading";
    default: return {};
  }
}

}  // namespace

EntryStatus Ledger::describe(const Entry& entry, TimePoint now) const {
  EntryStatus status;
  status.spec = entry.spec;
  status.state = state_of(entry);
  status.stage = stage_of(entry.phase);
  status.weight_bytes = entry.private_bytes + entry.claimed;
  status.code_bytes = entry.code_bytes;
  for (const SegmentRecord* segment : entry.segments) {
    (segment->code ? status.code_bytes : status.weight_bytes) += segment->bytes;
    if (segment->live() < 2) continue;
    status.shared_bytes += segment->bytes;
    status.saved_bytes += segment->bytes - segment->bytes / segment->live();
  }
  status.mapped_bytes = entry.mapped_bytes;
  status.way = entry.way;
  status.way_reason = entry.way_reason;
  status.leases = entry.leases;
  status.waiting = entry.waiters.size();
  status.stateless = entry.stateless;
  status.pinned = entry.spec.settings.pinned;
  status.quarantined = entry.quarantined;
  status.idle_seconds = entry.phase == Phase::ready && entry.leases == 0 ? seconds(now - entry.last_used) : 0;
  status.model = entry.model.get();
  return status;
}

/// How long every loader thread has been busy with the same loads; 0 when one is free. Callers come and go at their
/// deadlines; whether loads move at all shows here.
std::chrono::nanoseconds Ledger::loaders_stand_still(TimePoint now) const {
  if (reading_ < options_.loads_at_once) {
    return {};
  }
  std::chrono::nanoseconds shortest = std::chrono::nanoseconds::max();
  for (const Entry* reader : readers_) {
    if (!reader->quarantined) {
      shortest = std::min<std::chrono::nanoseconds>(shortest, now - reader->phase_since);
    }
  }
  return shortest;
}

double Ledger::oldest_waiting_load_seconds(TimePoint now) const {
  double oldest = 0;
  for (const auto& [id, entry] : entries_) {
    if (entry->loading() && !entry->waiters.empty()) oldest = std::max(oldest, seconds(now - entry->began));
  }
  return std::max(oldest, seconds(loaders_stand_still(now)));
}

std::optional<Error> Ledger::broken(const loader::ArtifactId& artifact, TimePoint now) const {
  const Error* error = broken_.find(artifact, now);
  return error != nullptr ? std::optional(*error) : std::nullopt;
}

/// The charges, with models that were unloaded or replaced and still run told as draining. The ledger itself counts
/// as draining only what comes back by itself: nobody may wait for the end of a call instead of choosing victims.
MemoryUse Ledger::used_as_seen() const {
  MemoryUse use = charges_.use();
  for (const auto& [id, entry] : entries_) {
    if (!drains(*entry)) continue;
    std::size_t weights = entry->private_bytes;
    std::size_t code = entry->code_bytes;
    for (const SegmentRecord* segment : entry->segments) {
      if (segment->holders() == 1) (segment->code ? code : weights) += segment->bytes;
    }
    use.weights -= weights;
    use.code -= code;
    use.draining += weights + code;
  }
  return use;
}

CacheStatus Ledger::status(TimePoint now) const {
  CacheStatus status;
  status.budget = options_.budget;
  status.activation_floor = floor();
  status.used = used_as_seen();
  status.pinned_bytes = pinned_bytes();
  status.shared_saved_bytes = segments_.saved_bytes();
  status.claims_waiting = claims_.size();
  status.running = running_;
  status.stuck_calls = written_off_;
  status.stuck_loads = readers_.size() - reading_;
  std::unordered_map<const Entry*, std::size_t> ranks;
  for (const Entry* entry : idle_entries(nullptr)) {
    ranks.emplace(entry, ranks.size());
  }
  for (const auto& [id, entry] : entries_) {
    status.entries.push_back(describe(*entry, now));
    if (const auto rank = ranks.find(entry.get()); rank != ranks.end() && options_.evicts) {
      status.entries.back().eviction_rank = rank->second;
    }
  }
  status.oldest_waiting_load_seconds = oldest_waiting_load_seconds(now);
  std::ranges::sort(status.entries, {}, [](const EntryStatus& each) {
    return std::tie(each.spec.name, each.spec.version, each.spec.artifact.ctime_ns);
  });
  return status;
}

}  // namespace mme::cache
