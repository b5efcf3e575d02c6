// Who leaves memory and when: condemned by an overdue claim, over a lowered budget, chosen as a victim (R6-R8, R14).
// Chooses and books; the model itself is destroyed by the reaper.
#include <algorithm>
#include <cassert>
#include <utility>

#include "cache/faults.hpp"
#include "cache/ledger.hpp"
#include "cache/victims.hpp"

namespace mme::cache {

/// R2, `replace: offline`: idle models are not enough, so the one that is to be replaced goes as well, once its last
/// call has ended. Nobody new comes to it: who names the new artifact waits for that.
bool Ledger::make_room_offline(Entry& head, std::size_t need, TimePoint now, Decisions& out) {
  Entry* old = head.spec.settings.replace_offline ? replaced_by(head) : nullptr;
  if (old == nullptr || old->phase != Phase::ready || old->in_use() || !old->waiters.empty()) {
    return false;
  }
  std::vector<Entry*> candidates = idle_entries(&head);
  candidates.push_back(old);
  const auto chosen = victims(candidates, need);
  if (!chosen) {
    return false;
  }
  for (Entry* entry : *chosen) {
    if (entry == old) {
      directory_.find(head.spec)->previous = old->spec.artifact;
    }
    evict(*entry, entry == old ? EvictionReason::replaced : EvictionReason::room, head.spec.name, now, out);
  }
  return true;
}

bool Ledger::condemn(Entry& head, std::size_t need, TimePoint now, Decisions& out) {
  std::vector<Entry*> all;
  std::vector<Entry*> condemned;
  Entry* old = replaced_by(head);
  for (Entry* entry : recency_) {
    if (!entry->doomed && !entry->spec.settings.pinned && entry != old && entry != &head) {
      all.push_back(entry);
      if (entry->condemned) {
        condemned.push_back(entry);
      }
    }
  }
  if (old != nullptr && head.spec.settings.replace_offline) {
    all.push_back(old);  // it goes by itself, but its bytes count
  }
  condemned_for_ = head.id;
  condemned_after_ = *head.claim;
  if (!victims(condemned, need)) {
    for (Entry* entry : victims(all, need).value_or(std::vector<Entry*>{})) {
      if (entry != old) {
        entry->condemned = true;
        condemned.push_back(entry);
      }
    }
  }
  bool evicted = false;
  for (Entry* entry : condemned) {
    if (may_go(*entry, &head)) {
      evict(*entry, EvictionReason::room, head.spec.name, now, out);
      evicted = true;
    }
  }
  return evicted;
}

void Ledger::pardon() noexcept {
  if (std::exchange(condemned_for_, 0) != 0) {
    for (Entry* entry : recency_) {
      entry->condemned = false;
    }
  }
}

/// R14: after the budget was lowered idle models go until the rest fits, now and as leases end.
void Ledger::relieve(TimePoint now, Decisions& out) {
  ceiling_ = std::max(options_.budget, charges_.total());
  const Signed over_budget = -free_for_calls();
  const Signed over_floor = -free_for_loads();
  const Signed need = std::max(over_budget, over_floor) - static_cast<Signed>(charges_.use().draining);
  if (need <= 0 || !options_.evicts) {
    relieving_ = options_.evicts && charges_.total() > options_.budget;
    return;
  }
  const std::vector<Entry*> idle = idle_entries(nullptr);
  for (Entry* entry : victims(idle, static_cast<std::size_t>(need)).value_or(idle)) {
    evict(*entry, EvictionReason::budget, {}, now, out);
  }
}

/// R6: the model is condemned, and the call came after the claim that it is condemned for. Calls that came before that
/// claim still run.
bool Ledger::outwaited(const Entry& entry, const Waiter& waiter) const noexcept {
  return entry.condemned && (waiter.ticket == 0 || waiter.ticket > condemned_after_);
}

bool Ledger::may_go(const Entry& entry, const Entry* beneficiary) const {
  if (entry.phase != Phase::ready || entry.doomed || (entry.in_use() && !fault("lease_not_taken")) ||
      entry.spec.settings.pinned || &entry == beneficiary ||
      (!entry.waiters.empty() && !outwaited(entry, entry.waiters.front()))) {
    return false;
  }
  return beneficiary == nullptr || beneficiary->spec.name != entry.spec.name || replaced_by(*beneficiary) != &entry;
}

std::vector<Entry*> Ledger::idle_entries(const Entry* beneficiary) const {
  std::vector<Entry*> idle;
  for (Entry* entry : recency_) {
    if (may_go(*entry, beneficiary)) {
      idle.push_back(entry);
    }
  }
  if (fault("most_recent_first")) {
    std::ranges::reverse(idle);
  }
  return idle;
}

std::optional<std::vector<Entry*>> Ledger::victims(const std::vector<Entry*>& candidates, std::size_t need) const {
  std::vector<Candidate> offered;
  for (const Entry* entry : candidates) {
    offered.push_back({entry->own_bytes(), entry->segments});
  }
  const auto chosen = choose_victims(offered, need);
  if (options_.victims_chosen) {
    options_.victims_chosen(offered, need, chosen);
  }
  if (!chosen) {
    return std::nullopt;
  }
  std::vector<Entry*> entries;
  for (const std::size_t index : *chosen) {
    entries.push_back(candidates[index]);
  }
  return entries;
}

/// R8: out of look-up at once, charged until memory_back().
void Ledger::evict(Entry& entry, EvictionReason reason, const std::string& cause, TimePoint now, Decisions& out) {
  assert(entry.phase == Phase::ready && !entry.in_use());
  loader::Estimate again{{}, entry.own_bytes()};
  std::size_t bytes = entry.own_bytes();
  for (SegmentRecord* segment : entry.segments) {
    again.segments.push_back({segment->key, segment->bytes, segment->code});
    bytes += segment->bytes;
    segments_.move(segment, Holding::ready, Holding::draining);
  }
  charges_.move(Kind::weights, Kind::draining, entry.private_bytes);
  charges_.move(Kind::code, Kind::draining, entry.code_bytes);
  recency_.erase(*entry.recency);
  entry.recency.reset();
  pinned_.erase(&entry);
  set_floor_share(entry, 0);
  entry.condemned = false;
  leave_turn(entry);
  move_to(entry, Phase::evicting, now);
  out.destructions.push_back({entry.id, std::move(entry.model)});
  out.events.emplace_back(Evicted{entry.spec, bytes, reason, cause});
  if (entry.waiters.empty()) {
    detach(entry);
  } else {
    restart(entry, std::move(again), now, out);
  }
}

void Ledger::maybe_retire(Entry& entry, TimePoint now, Decisions& out) {
  if (entry.doomed && entry.phase == Phase::ready && !entry.in_use() && entry.waiters.empty()) {
    evict(entry, entry.doom_reason, {}, now, out);
  }
}

}  // namespace mme::cache
