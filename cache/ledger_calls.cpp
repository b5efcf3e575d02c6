// The ledger's calls: who runs next, with which grant (R4, R10, R17).
// Makes no room; a call that is short of room gets a claim and ledger_room.cpp sees to it.
#include <algorithm>
#include <cassert>
#include <utility>

#include "cache/faults.hpp"
#include "cache/ledger.hpp"

namespace mme::cache {

std::optional<std::size_t> Ledger::peak_of(const Entry& entry, const CallRequest& request) const {
  const std::optional<std::size_t> learned = entry.peaks->peak(request.input_bytes);
  if (request.least_bytes == 0) {
    return learned;
  }
  return std::max(learned.value_or(0), request.least_bytes);
}

std::size_t Ledger::grant_of(const Entry& entry, const CallRequest& request) const {
  return peak_of(entry, request).value_or(0);
}

/// Why the call cannot start now. `room` only when nothing but bytes is missing.
Ledger::Obstacle Ledger::obstacle(const Entry& entry, const Waiter& waiter, TimePoint now) const {
  const bool others =
      running_ > entry.leases || turns_.size() > (entry.turn ? 1U : 0U) || recent_.other_than(entry.id, now);
  const std::size_t share = others && options_.compute_slots > 1 ? options_.compute_slots - 1 : options_.compute_slots;
  if (running_ >= options_.compute_slots || entry.leases >= share || alone_ || outwaited(entry, waiter) ||
      entry.quarantined) {
    return Obstacle::busy;
  }
  if ((!entry.stateless && entry.leases > 0) || (waiter.request.alone && running_ > 0) ||
      (gate_ != nullptr && gate_ != &entry)) {
    return Obstacle::busy;
  }
  const std::optional<std::size_t> peak = peak_of(entry, waiter.request);
  if (!peak && entry.unknown > 0) {
    return Obstacle::busy;  // of calls whose peak is unknown, one per model
  }
  if (static_cast<Signed>(peak.value_or(0)) > std::max<Signed>(0, free_for_calls())) {
    return Obstacle::room;
  }
  const bool passes = overdue_ == nullptr || overdue_ == &entry || peak.value_or(0) == 0 ||
                      (waiter.ticket != 0 && waiter.ticket < *overdue_->claim);
  return passes ? Obstacle::none : Obstacle::busy;
}

/// Starts what can run, models in turn. True when a call was found short of room: it got a claim, or was refused.
bool Ledger::dispatch(TimePoint now, Decisions& out) {
  bool changed = false;
  bool started = true;
  while (std::exchange(started, false) && running_ < options_.compute_slots) {
    const auto waits_too_long = [&](const Entry* entry) {
      const Waiter& first = entry->waiters.front();
      return first.request.alone && now - first.since >= options_.claim_after;
    };
    const auto gate = std::ranges::find_if(turns_, waits_too_long);
    gate_ = gate == turns_.end() ? nullptr : *gate;
    for (auto at = turns_.begin(); at != turns_.end();) {
      Entry& entry = **at++;
      const Waiter first = entry.waiters.front();
      const Obstacle found = obstacle(entry, first, now);
      if (found == Obstacle::room && !entry.claim) {
        changed = true;
        if (never_granted(entry)) {
          refuse_first(entry, now, out);
        } else {
          claim(entry, now);
        }
      }
      if (found != Obstacle::none) {
        continue;
      }
      entry.waiters.pop_front();
      waiting_.erase(first.ticket);
      out.grants.push_back({first.ticket, start(entry, first, now)});
      leave_turn(entry);
      take_turn(entry);
      started = true;
    }
  }
  return changed;
}

LeaseTerms Ledger::start(Entry& entry, const Waiter& waiter, TimePoint now) {
  const std::optional<std::size_t> peak = peak_of(entry, waiter.request);
  if (entry.claim && entry.id == head_) {
    short_since_.reset();  // a claim was served
  }
  drop_claim(entry);
  ++running_;
  ++entry.leases;
  entry.unknown += peak ? 0 : 1;
  alone_ = waiter.request.alone;
  touch(entry, now);
  open(*waiter.account, entry, peak.value_or(0));
  waiter.account->deadline = waiter.request.deadline;
  waiter.account->alone = waiter.request.alone;
  return {.entry = &entry,
          .granted = peak.value_or(0),
          .input_bytes = waiter.request.input_bytes,
          .unknown_peak = !peak,
          .result = waiter.result,
          .load = waiter.load,
          .queue = now - waiter.since - waiter.load};
}

void Ledger::open(GrantAccount& account, Entry& entry, std::size_t bytes) {
  assert(!account.open);
  account.kind = Kind::activations;
  account.held = bytes;
  account.open = true;
  account.entry = entry.id;
  account.running = &entry;
  charges_.add(account.kind, bytes);
  accounts_.push_back(account);
}

/// `usable`: whether its model can be called again; if not, the next caller has it loaded anew.
void Ledger::end_lease(const LeaseTerms& terms, GrantAccount& account, bool usable, TimePoint now, Decisions& out) {
  Entry& entry = *terms.entry;
  assert(account.running == &entry && entry.leases > 0);
  account.running = nullptr;
  --entry.leases;
  entry.unknown -= terms.unknown_peak ? 1 : 0;
  if (std::exchange(account.written_off, false)) {
    --written_off_;
    out.events.emplace_back(Recovered{entry.spec, StuckWork::call});
    entry.quarantined = std::ranges::any_of(
        accounts_, [&](const GrantAccount& other) { return other.running == &entry && other.written_off; });
  } else {
    --running_;
    alone_ = alone_ && !account.alone;
  }
  touch(entry, now);
  if (!usable && !entry.doomed) {
    doom(entry, EvictionReason::file_changed, now, out);
  } else {
    maybe_retire(entry, now, out);
  }
  moved_since_pump_ = false;
  if (!fault("wake_up_dropped")) {
    pump(now, out);
  }
}

void Ledger::learn(const LeaseTerms& terms, std::size_t peak) {
  if (terms.entry->peaks->learn(terms.input_bytes, peak)) {
    facts_.peak_learned();
  }
  set_floor_share(*terms.entry, terms.entry->peaks->smallest());
  moved_since_pump_ = true;
}

void Ledger::touch(Entry& entry, TimePoint now) noexcept {
  entry.last_used = now;
  recent_.touch(entry.id, now);
  recency_.splice(recency_.end(), recency_, *entry.recency);
}

void Ledger::take_turn(Entry& entry) {
  if (entry.phase == Phase::ready && !entry.waiters.empty() && !entry.turn) {
    entry.turn = turns_.insert(turns_.end(), &entry);
  }
}

void Ledger::leave_turn(Entry& entry) noexcept {
  if (entry.turn) {
    turns_.erase(*entry.turn);
    entry.turn.reset();
  }
  if (gate_ == &entry) {
    gate_ = nullptr;
  }
  if (entry.phase == Phase::ready) {
    drop_claim(entry);
  }
}

Entry* Ledger::pin(const std::string& name, const std::optional<std::string>& version) {
  Entry* best = nullptr;
  for (const NameSlot* slot : directory_.matching(name, version)) {
    Entry* entry = slot->current;
    if (entry->phase == Phase::ready && (best == nullptr || best->last_used < entry->last_used)) {
      best = entry;
    }
  }
  if (best != nullptr) {
    ++best->pins;
  }
  return best;
}

void Ledger::unpin(Entry& entry, TimePoint now, Decisions& out) {
  --entry.pins;
  maybe_retire(entry, now, out);
  pump(now, out);
}

/// R10: the largest learned batch-1 peak of a model in memory raises the floor.
void Ledger::set_floor_share(Entry& entry, std::size_t bytes) {
  if (entry.floor_share > 0) {
    floor_shares_.erase(floor_shares_.find(entry.floor_share));
  }
  entry.floor_share = bytes;
  if (bytes > 0) {
    floor_shares_.insert(bytes);
  }
}

}  // namespace mme::cache
