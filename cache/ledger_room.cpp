// The ledger's room: the claim queue, who may be admitted, who goes for whom (R3, R5-R9, R14).
// Chooses and books; the model itself is destroyed by the reaper.
#include <algorithm>
#include <cassert>
#include <utility>

#include "cache/faults.hpp"
#include "cache/ledger.hpp"
#include "cache/victims.hpp"

namespace mme::cache {

// --- sums

/// The setting, or the largest learned batch-1 peak; what is learned never takes more than a quarter of the budget, so
/// that one odd call cannot lock every model out.
std::size_t Ledger::floor() const noexcept {
  const std::size_t learned = floor_shares_.empty() ? 0 : *floor_shares_.rbegin();
  return std::max(options_.activation_floor, std::min(learned, options_.budget / 4));
}

Ledger::Signed Ledger::free_for_calls() const noexcept {
  const std::size_t uncharged = fault("draining_uncharged") ? charges_.use().draining : 0;
  return static_cast<Signed>(options_.budget) - static_cast<Signed>(charges_.total() - uncharged + promised_);
}

Ledger::Signed Ledger::free_for_loads() const noexcept {
  const Signed below_floor =
      static_cast<Signed>(options_.budget) - static_cast<Signed>(floor() + charges_.models() + promised_);
  return std::min(below_floor, free_for_calls());
}

std::size_t Ledger::pinned_bytes() const {
  std::set<const SegmentRecord*> counted;
  std::size_t bytes = 0;
  for (const Entry* entry : pinned_) {
    bytes += entry->own_bytes();
    for (const SegmentRecord* segment : entry->segments) {
      bytes += counted.insert(segment).second ? segment->bytes : 0;
    }
  }
  return bytes;
}

/// What a load may fill at most, when everything has gone that may go for it (R9). The model that it replaces stays.
std::size_t Ledger::room_for(const Entry* entry) const {
  std::size_t taken = floor() + pinned_bytes();
  const NameSlot* slot = const_cast<Directory&>(directory_).find(entry->spec);
  if (slot != nullptr && slot->next == entry && !pinned_.contains(slot->current)) {
    taken += slot->current->own_bytes();
    for (const SegmentRecord* segment : slot->current->segments) {
      taken += segment->bytes;
    }
  }
  return options_.budget - std::min(options_.budget, taken);
}

std::size_t Ledger::bytes_beside_pinned(const Entry& entry) const {
  std::set<const SegmentRecord*> staying;
  for (const Entry* pinned : pinned_) {
    staying.insert(pinned->segments.begin(), pinned->segments.end());
  }
  const NameSlot* slot = const_cast<Directory&>(directory_).find(entry.spec);
  if (slot != nullptr && slot->next == &entry) {
    staying.insert(slot->current->segments.begin(), slot->current->segments.end());
  }
  std::size_t bytes = entry.estimate.private_bytes;
  for (const loader::Segment& segment : entry.estimate.segments) {
    bytes += staying.contains(segments_.find(segment.key)) ? 0 : segment.bytes;
  }
  return bytes;
}

std::size_t Ledger::unheld_bytes(const Entry& entry) const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < entry.estimate.segments.size(); ++i) {
    bytes += entry.joined[i] ? 0 : entry.estimate.segments[i].bytes;
  }
  return bytes;
}

bool Ledger::waits_for_drain(const Entry& entry) const {
  for (std::size_t i = 0; i < entry.estimate.segments.size(); ++i) {
    if (!entry.joined[i] && segments_.find(entry.estimate.segments[i].key) != nullptr) {
      return true;
    }
  }
  return false;
}

/// Bytes that a claim lacks now; zero or less when it fits. A load's claim counts the grant of its first call too, when
/// that could ever be had.
Ledger::Signed Ledger::missing(const Entry& entry) const {
  if (entry.phase == Phase::ready) {
    return static_cast<Signed>(grant_of(entry, entry.waiters.front().request)) - std::max<Signed>(0, free_for_calls());
  }
  const std::size_t bytes = unheld_bytes(entry) + entry.estimate.private_bytes + reserved_;
  const Signed lacking = static_cast<Signed>(bytes) - free_for_loads();
  if (entry.waiters.empty()) {
    return lacking;
  }
  const std::size_t grant = grant_of(entry, entry.waiters.front().request);
  if (bytes_beside_pinned(entry) + grant + pinned_bytes() > options_.budget) {
    return lacking;
  }
  return std::max(lacking, static_cast<Signed>(bytes + grant) - free_for_calls());
}

// --- the claim queue

/// A claim stands in the queue where its oldest caller does: tickets are given in the order of arrival. So whoever has
/// waited longest is at the head through load, restart and grant, and gets on; two models that cannot both run in the
/// budget cannot evict each other for ever.
void Ledger::claim(Entry& entry, TimePoint now) {
  assert(!entry.claim && !entry.waiters.empty());
  entry.claim = entry.waiters.front().ticket;
  entry.claim_since = now;
  claims_[*entry.claim] = &entry;
}

void Ledger::drop_claim(Entry& entry) noexcept {
  if (entry.claim) {
    claims_.erase(*entry.claim);
    entry.claim.reset();
  }
  if (overdue_ == &entry) {
    overdue_ = nullptr;
  }
}

TimePoint Ledger::short_since(const Entry& entry) const noexcept {
  return std::max(entry.claim_since, short_since_.value_or(entry.claim_since));
}

bool Ledger::overdue(const Entry& head, TimePoint now) const noexcept {
  return !fault("overdue_off") && options_.evicts && now - short_since(head) >= options_.claim_after;
}

/// Everything that can happen now, happens: claims are served in order, calls start, models leave.
void Ledger::pump(TimePoint now, Decisions& out) {
  if (relieving_) {
    relieve(now, out);
  }
  if (claims_.empty() && turns_.empty() && condemned_for_ == 0) {
    overdue_ = nullptr;
    short_since_.reset();
    return;
  }
  dispatch(now, out);  // first: a load behind a call's claim must not take the room that has just come for it
  for (bool changed = true; changed;) {
    changed = admit(now, out);
    changed = dispatch(now, out) || changed;
  }
}

/// True when something left, which may have made room by more than its bytes.
bool Ledger::admit(TimePoint now, Decisions& out) {
  Entry* head = nullptr;
  reserved_ = 0;
  for (auto at = claims_.begin(); at != claims_.end() && head == nullptr;) {
    Entry& entry = *(at++)->second;
    if (refuse_hopeless(entry, now, out)) {
      continue;
    }
    if (entry.phase == Phase::ready) {
      if (missing(entry) > 0) {
        head = &entry;
      } else {  // it starts when it gets a slot; its room is not for the loads behind it
        reserved_ += grant_of(entry, entry.waiters.front().request);
      }
    } else if (reading_ < options_.loads_at_once) {
      if (missing(entry) > 0 || waits_for_drain(entry)) {
        head = &entry;
      } else {
        admit_load(entry, now, out);
      }
    }
  }
  overdue_ = nullptr;
  head_ = head == nullptr ? 0 : head->id;
  if (condemned_for_ != head_) {
    pardon();
  }
  if (head == nullptr) {
    short_since_.reset();
    return false;
  }
  short_since_ = short_since_.value_or(now);
  return make_room(*head, now, out);
}

void Ledger::admit_load(Entry& entry, TimePoint now, Decisions& out) {
  if (entry.id == head_) {
    short_since_.reset();  // a claim was served
  }
  drop_claim(entry);
  const std::size_t bytes = unheld_bytes(entry) + entry.estimate.private_bytes;
  for (std::size_t i = 0; i < entry.joined.size(); ++i) {
    if (!entry.joined[i]) {
      const loader::Segment& segment = entry.estimate.segments[i];
      entry.segments.push_back(segments_.hold(segment.key, segment.bytes, Holding::loading));
      entry.joined[i] = true;
    }
  }
  entry.claimed = entry.estimate.private_bytes;
  charges_.add(Kind::loading, entry.claimed);
  move_to(entry, Phase::reading, now);
  ++reading_;
  readers_.insert(&entry);
  out.reads.push_back({entry.id, entry.spec});
  out.events.emplace_back(LoadStarted{entry.spec, bytes});
}

/// R9, and R16 for loads: a claim that no waiting can help is refused at once.
bool Ledger::refuse_hopeless(Entry& entry, TimePoint now, Decisions& out) {
  if (entry.phase == Phase::ready) {
    const bool never = never_granted(entry);
    if (never) {
      refuse_first(entry, now, out);
    }
    return never;
  }
  join_segments(entry);
  const bool never = bytes_beside_pinned(entry) > room_for(&entry);
  const bool not_by_us = !options_.evicts && missing(entry) > static_cast<Signed>(charges_.use().draining);
  if (never || not_by_us) {
    fail_load(entry, no_room(entry), now, out);
    return true;
  }
  return false;
}

/// The first call needs more than would be free if all went but its model and the pinned ones.
bool Ledger::never_granted(const Entry& entry) const {
  std::size_t staying = pinned_bytes();
  if (!pinned_.contains(&entry)) {
    staying += entry.own_bytes();
    for (const SegmentRecord* segment : entry.segments) {
      staying += segment->bytes;
    }
  }
  return grant_of(entry, entry.waiters.front().request) + staying > options_.budget;
}

void Ledger::refuse_first(Entry& entry, TimePoint now, Decisions& out) {
  const Waiter waiter = entry.waiters.front();
  entry.waiters.pop_front();
  waiting_.erase(waiter.ticket);
  const Error error{ErrorCode::activations, "no room for a call of model '" + entry.spec.name + "'"};
  out.failures.push_back({waiter.ticket, error});
  out.events.emplace_back(Refused{entry.spec, error});
  drop_claim(entry);
  after_leaving(entry, now, out);
}

/// R5: only the head of the queue gets here. R6: when idle models are not enough and it is overdue, those in use are
/// condemned.
bool Ledger::make_room(Entry& head, TimePoint now, Decisions& out) {
  const Signed need = missing(head) - static_cast<Signed>(charges_.use().draining);
  const bool late = overdue(head, now);
  bool evicted = false;
  if (need > 0 && options_.evicts) {
    const EvictionReason reason = head.phase == Phase::ready ? EvictionReason::activations : EvictionReason::room;
    if (const auto chosen = victims(idle_entries(&head), static_cast<std::size_t>(need))) {
      for (Entry* entry : *chosen) {
        evict(*entry, reason, head.spec.name, now, out);
      }
      evicted = !chosen->empty();
    } else if (late) {
      evicted = condemn(head, static_cast<std::size_t>(need), now, out);
    }
  }
  overdue_ = late ? &head : nullptr;
  return evicted;
}

bool Ledger::condemn(Entry& head, std::size_t need, TimePoint now, Decisions& out) {
  std::vector<Entry*> all;
  std::vector<Entry*> condemned;
  const NameSlot* slot = directory_.find(head.spec);
  for (Entry* entry : recency_) {
    const bool replaced = slot != nullptr && slot->next == &head && slot->current == entry;
    if (!entry->doomed && !entry->spec.settings.pinned && !replaced && entry != &head) {
      all.push_back(entry);
      if (entry->condemned) {
        condemned.push_back(entry);
      }
    }
  }
  condemned_for_ = head.id;
  condemned_after_ = *head.claim;
  if (!victims(condemned, need)) {
    for (Entry* entry : victims(all, need).value_or(std::vector<Entry*>{})) {
      entry->condemned = true;
      condemned.push_back(entry);
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

// --- leaving

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
  if (beneficiary == nullptr || beneficiary->spec.name != entry.spec.name) {
    return true;
  }
  const NameSlot* slot = const_cast<Directory&>(directory_).find(beneficiary->spec);
  return slot == nullptr || slot->next != beneficiary || slot->current != &entry;
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
    again.segments.push_back({segment->key, segment->bytes});
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
