// The ledger's invariants, recomputed from nothing and compared. For tests: slow, and throws.
// Repairs nothing.
#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

#include "cache/ledger.hpp"

namespace mme::cache {
namespace {

void hold_true(bool holds, const std::string& what) {
  if (!holds) {
    throw std::logic_error("ledger: " + what);
  }
}

Holding holding_of(Phase phase) {
  return phase == Phase::ready ? Holding::ready : phase == Phase::evicting ? Holding::draining : Holding::loading;
}

}  // namespace

void Ledger::check() const {
  check_sums();
  std::size_t leases = 0;
  std::size_t reading = 0;
  for (const auto& [id, entry] : entries_) {
    check_entry(*entry);
    leases += entry->leases;
    reading += entry->phase == Phase::reading ? 1 : 0;
  }
  hold_true(leases == running_ + written_off_, "a slot is taken without a lease, or a lease has none");
  hold_true(running_ <= options_.compute_slots, "more calls run than there are slots");
  hold_true(!alone_ || running_ == 1, "a call that must be alone is not");
  hold_true(reading == readers_.size() && reading_ <= reading && reading_ <= options_.loads_at_once,
            "more loads read than may");
  check_queues();
  if (!moved_since_pump_) {
    check_nobody_waits_in_vain();
  }
}

void Ledger::check_sums() const {
  MemoryUse sum;
  std::map<const SegmentRecord*, SegmentRecord> seen;
  for (const auto& [id, entry] : entries_) {
    (entry->phase == Phase::evicting ? sum.draining : sum.weights) += entry->private_bytes;
    (entry->phase == Phase::evicting ? sum.draining : sum.code) += entry->code_bytes;
    sum.loading += entry->claimed;
    for (const SegmentRecord* segment : entry->segments) {
      SegmentRecord& counted = seen[segment];
      const Holding as = holding_of(entry->phase);
      ++(as == Holding::ready ? counted.ready : as == Holding::loading ? counted.loading : counted.draining);
    }
  }
  std::size_t records = 0;
  segments_.each([&](const SegmentRecord& segment) {
    ++records;
    const SegmentRecord& counted = seen[&segment];
    hold_true(counted.ready == segment.ready && counted.loading == segment.loading &&
                  counted.draining == segment.draining && segment.holders() > 0,
              "the holders of segment " + segment.key + " are miscounted");
    (segment.kind() == Kind::weights   ? sum.weights
     : segment.kind() == Kind::code    ? sum.code
     : segment.kind() == Kind::loading ? sum.loading
                                       : sum.draining) += segment.bytes;
  });
  hold_true(records == seen.size(), "an entry holds a segment that is gone");
  for (const GrantAccount& account : accounts_) {
    (account.kind == Kind::bodies ? sum.bodies : sum.activations) += account.held;
  }
  hold_true(sum == charges_.use(), "the sums by kind are not what the entries and grants hold");
  hold_true(sum.total() <= std::max(options_.budget, ceiling_), "more is used than the budget allows");
}

void Ledger::check_entry(const Entry& entry) const {
  const std::string who = "model " + entry.spec.name + " (" + std::to_string(entry.id) + ") ";
  const bool ready = entry.phase == Phase::ready;
  const NameSlot* slot = const_cast<Directory&>(directory_).find(entry.spec);
  const bool found = slot != nullptr && (slot->current == &entry || slot->next == &entry);
  hold_true(found == (!entry.doomed && entry.phase != Phase::evicting), who + "is in look-up exactly when it serves");
  hold_true(ready == (entry.model != nullptr), who + "has a model exactly when it is ready");
  hold_true(ready == entry.recency.has_value(), who + "is on the recency list exactly when it is ready");
  hold_true(ready || (entry.leases == 0 && entry.pins == 0), who + "is leased and not ready");
  hold_true(entry.stateless || entry.leases <= 1, who + "is stateful and runs twice");
  hold_true(entry.unknown <= 1, who + "runs two calls whose peak is unknown");
  hold_true(entry.turn.has_value() == (ready && !entry.waiters.empty()), who + "has waiting calls and no turn");
  hold_true(entry.phase != Phase::queued || entry.claim, who + "is queued without a claim");
  hold_true(entry.phase != Phase::queued || entry.segments.empty() || entry.id == head_,
            who + "holds segments while others stand before it");
  hold_true(!entry.claim || entry.phase == Phase::queued || (ready && !entry.waiters.empty()),
            who + "claims for no one");
  hold_true(entry.phase == Phase::reading || entry.claimed == 0, who + "holds a claim and does not read");
  hold_true(entry.phase != Phase::evicting || entry.waiters.empty(), who + "leaves while callers wait for it");
  hold_true(!ready || !entry.doomed || entry.in_use() || !entry.waiters.empty(), who + "is doomed and idle, and stays");
  hold_true(entry.phase != Phase::queued || !entry.waiters.empty(), who + "is wanted by nobody, and stays");
  hold_true(!entry.condemned || condemned_for_ != 0, who + "is condemned for nobody");
  for (const Waiter& waiter : entry.waiters) {
    const auto at = waiting_.find(waiter.ticket);
    hold_true(at != waiting_.end() && at->second == &entry, who + "has a caller that cannot be found");
    hold_true(!ready || waiter.kind == Waiter::Kind::call, who + "is loaded and a load waits for it");
  }
}

void Ledger::check_queues() const {
  std::size_t waiting = 0;
  std::size_t ready = 0;
  for (const auto& [id, entry] : entries_) {
    waiting += entry->waiters.size();
    ready += entry->phase == Phase::ready ? 1 : 0;
  }
  hold_true(waiting == waiting_.size(), "a caller waits nowhere");
  hold_true(ready == recency_.size(), "the recency list lists something else than the ready models");
  for (const auto& [number, entry] : claims_) {
    hold_true(entry->claim == number, "a claim belongs to nobody");
  }
  directory_.each([](const std::string& name, const NameSlot& slot) {
    hold_true(slot.current != nullptr, "the name " + name + " means nothing");
    hold_true(slot.next == nullptr || slot.next->spec.artifact != slot.current->spec.artifact,
              "one artifact of " + name + " is there twice");
  });
  hold_true(promised_ == 0 || charges_.total() <= std::max(options_.budget, ceiling_),
            "more is promised than there is");
}

/// As of the last decision: bytes that grants moved since, and time that passed, are seen by the next one.
void Ledger::check_nobody_waits_in_vain() const {
  const auto first = std::ranges::find_if(claims_, [&](const auto& each) {
    return each.second->phase == Phase::queued ? reading_ < options_.loads_at_once : missing(*each.second) > 0;
  });
  if (first != claims_.end() && first->second->phase == Phase::queued) {
    const Entry& head = *first->second;
    hold_true(missing(head) > 0 || waits_for_drain(head), "model " + head.spec.name + " could be loaded and waits");
  }
  for (const Entry* entry : turns_) {
    const Obstacle found = obstacle(*entry, entry->waiters.front(), pumped_at_);
    hold_true(found != Obstacle::none, "a call of model " + entry->spec.name + " could run and waits");
    hold_true(found != Obstacle::room || entry->claim,
              "a call of model " + entry->spec.name + " lacks room, unclaimed");
  }
}

}  // namespace mme::cache
