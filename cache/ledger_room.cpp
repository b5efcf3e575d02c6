// The ledger's room: the sums, the claim queue, who may be admitted (R3, R5, R6, R9).
// Who leaves for it is decided in ledger_leaving.cpp.
#include <algorithm>
#include <cassert>
#include <utility>

#include "cache/faults.hpp"
#include "cache/ledger.hpp"

namespace mme::cache {
namespace {

/// Nothing, unless the fault is planted: what is on its way out is charged like all else (R8).
std::size_t wrongly_free(const MemoryUse& use) noexcept {
  return fault("draining_uncharged") ? use.draining : 0;
}

}  // namespace

// --- sums

/// The setting, or the largest learned batch-1 peak; what is learned never takes more than a quarter of the budget, so
/// that one odd call cannot lock every model out.
std::size_t Ledger::floor() const noexcept {
  const std::size_t learned = floor_shares_.empty() ? 0 : *floor_shares_.rbegin();
  return std::max(options_.activation_floor, std::min(learned, options_.budget / 4));
}

Ledger::Signed Ledger::free_for_calls() const noexcept {
  return static_cast<Signed>(options_.budget) -
         static_cast<Signed>(charges_.total() - wrongly_free(charges_.use()) + promised_);
}

Ledger::Signed Ledger::free_for_loads() const noexcept {
  const Signed below_floor =
      static_cast<Signed>(options_.budget) -
      static_cast<Signed>(floor() + charges_.models() - wrongly_free(charges_.use()) + promised_);
  return std::min(below_floor, free_for_calls());
}

std::size_t Ledger::pinned_bytes(const Entry* without) const {
  return staying_bytes(nullptr, without);
}

/// What the pinned models hold, all but one of them, with another that stays too; what they share is counted once.
std::size_t Ledger::staying_bytes(const Entry* also, const Entry* without) const {
  std::set<const SegmentRecord*> counted;
  std::size_t bytes = 0;
  const auto count = [&](const Entry& entry) {
    bytes += entry.own_bytes();
    for (const SegmentRecord* segment : entry.segments) {
      bytes += counted.insert(segment).second ? segment->bytes : 0;
    }
  };
  for (const Entry* entry : pinned_) {
    if (entry != without) count(*entry);
  }
  if (also != nullptr && !pinned_.contains(also)) count(*also);
  return bytes;
}

/// The model in memory that a load is to replace; null when there is none.
Entry* Ledger::replaced_by(const Entry& entry) const {
  const NameSlot* slot = const_cast<Directory&>(directory_).find(entry.spec);
  return slot != nullptr && slot->next == &entry ? slot->current : nullptr;
}

/// What a load may fill at most, when everything has gone that may go for it (R9). The model that it replaces stays,
/// unless it is replaced offline.
std::size_t Ledger::room_for(const Entry* entry) const {
  const Entry* old = replaced_by(*entry);
  const bool leaves = entry->spec.settings.replace_offline;
  const std::size_t taken = floor() + staying_bytes(leaves ? nullptr : old, leaves ? old : nullptr);
  return options_.budget - std::min(options_.budget, taken);
}

std::size_t Ledger::bytes_beside_pinned(const Entry& entry) const {
  std::set<const SegmentRecord*> staying;
  const Entry* old = replaced_by(entry);
  const bool leaves = entry.spec.settings.replace_offline;
  for (const Entry* pinned : pinned_) {
    if (!leaves || pinned != old) {
      staying.insert(pinned->segments.begin(), pinned->segments.end());
    }
  }
  if (old != nullptr && !leaves) {
    staying.insert(old->segments.begin(), old->segments.end());
  }
  std::size_t bytes = entry.estimate.private_bytes;
  for (const loader::Segment& segment : entry.estimate.segments) {
    const bool stays = !staying.empty() && staying.contains(segments_.find(segment.key));
    bytes += stays ? 0 : segment.bytes;
  }
  return bytes;
}

std::size_t Ledger::unheld_bytes(const Entry& entry) const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < entry.estimate.segments.size(); ++i) {
    bytes += i < entry.joined.size() && entry.joined[i] ? 0 : entry.estimate.segments[i].bytes;
  }
  return bytes;
}

bool Ledger::waits_for_drain(const Entry& entry) const {
  for (std::size_t i = 0; i < entry.estimate.segments.size(); ++i) {
    if ((i >= entry.joined.size() || !entry.joined[i]) && segments_.find(entry.estimate.segments[i].key) != nullptr) {
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
  pumped_at_ = now;
  moved_since_pump_ = false;
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
  const EntryId before = head_;
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
    } else {
      leave_joined(entry.id);
    }
  }
  overdue_ = nullptr;
  head_ = head == nullptr ? 0 : head->id;
  const bool left = before != head_ && leave_joined(before);
  if (condemned_for_ != head_) {
    pardon();
  }
  if (head == nullptr) {
    short_since_.reset();
    return left;
  }
  short_since_ = short_since_.value_or(now);
  return make_room(*head, now, out) || left;
}

/// A claim that others stand before must hold nothing while it waits: they may need the very room that it would keep.
/// True when it held something.
bool Ledger::leave_joined(EntryId id) {
  const auto found = entries_.find(id);
  if (fault("segments_held_in_queue") || found == entries_.end() || found->second->phase != Phase::queued ||
      found->second->segments.empty()) {
    return false;
  }
  drop_segments(*found->second, Holding::loading);
  return true;
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
      entry.segments.push_back(segments_.hold(segment, Holding::loading));
      entry.joined[i] = true;
    }
  }
  entry.claimed = entry.estimate.private_bytes;
  charges_.add(Kind::loading, entry.claimed);
  move_to(entry, Phase::reading, now);
  ++reading_;
  readers_.insert(&entry);
  entry.stop = std::stop_source();
  const bool call_waits = std::ranges::find(entry.waiters, Waiter::Kind::call, &Waiter::kind) != entry.waiters.end();
  out.reads.push_back(
      {entry.id, entry.spec, entry.stop.get_token(), call_waits, entry.claimed, entry.estimate.segments});
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
  const bool its_turn = reading_ < options_.loads_at_once || fault("segments_held_in_queue");
  if (its_turn || !options_.evicts) {
    join_segments(entry);
  }
  const bool never = bytes_beside_pinned(entry) > room_for(&entry);
  const bool not_by_us = !options_.evicts && missing(entry) > static_cast<Signed>(charges_.use().draining);
  if (never || not_by_us) {
    if (claim_as_told(entry)) {
      return refuse_hopeless(entry, now, out);
    }
    fail_load(entry, no_room(entry), now, out);
    return true;
  }
  return false;
}

/// The first call needs more than would be free if all went but its model and the pinned ones.
bool Ledger::never_granted(const Entry& entry) const {
  return grant_of(entry, entry.waiters.front().request) + staying_bytes(&entry, nullptr) > options_.budget;
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
    } else if (make_room_offline(head, static_cast<std::size_t>(need), now, out)) {
      evicted = true;
    } else if (late) {
      evicted = condemn(head, static_cast<std::size_t>(need), now, out);
    }
  }
  overdue_ = late ? &head : nullptr;
  return evicted;
}

}  // namespace mme::cache
