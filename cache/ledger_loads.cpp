// The ledger's loads: from an estimate over a claim to a ready model, or to nothing.
// Admission to reading is decided in ledger_room.cpp.
#include <algorithm>
#include <cassert>
#include <unordered_set>
#include <utility>

#include "cache/ledger.hpp"

namespace mme::cache {
namespace {

void keep_first_of_each_key(std::vector<loader::Segment>& segments) {
  std::unordered_set<std::string> seen;
  std::erase_if(segments, [&](const loader::Segment& segment) { return !seen.insert(segment.key).second; });
}

}  // namespace

void Ledger::estimated(EntryId id, Result<loader::Estimate> estimate, TimePoint now, Decisions& out) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->phase != Phase::estimating) {
    return;  // nobody wants it any more
  }
  Entry& entry = *found->second;
  if (!estimate) {
    out.events.emplace_back(LoadStarted{entry.spec, 0});
    out.events.emplace_back(LoadEnded{entry.spec, 0, now - entry.phase_since, estimate.error()});
    fail_load(entry, estimate.error(), now, out);
  } else if (entry.waiters.empty()) {
    erase(entry, out);
  } else {
    entry.estimate = std::move(*estimate);
    keep_first_of_each_key(entry.estimate.segments);
    recall(entry);
    move_to(entry, Phase::queued, now);
    claim(entry, now);
  }
  pump(now, out);
}

void Ledger::loaded(EntryId id, Result<Loaded> result, TimePoint now, Decisions& out) {
  const auto found = entries_.find(id);
  assert(found != entries_.end() && found->second->phase == Phase::reading);
  Entry& entry = *found->second;
  readers_.erase(&entry);
  if (std::exchange(entry.quarantined, false)) {
    out.events.emplace_back(Recovered{entry.spec, StuckWork::load});
  } else {
    --reading_;
  }
  const std::vector<Event> news = result ? take_in_sizes(entry, *result) : std::vector<Event>();
  if (!result) {
    load_failed(entry, result.error(), now, out);
  } else if (settle(entry, result->footprint)) {
    become_ready(entry, std::move(*result), now, out);
  } else {
    undo_load(entry, std::move(*result), now, out);
  }
  out.events.insert(out.events.end(), news.begin(), news.end());
  pump(now, out);
}

/// The load left nothing behind. One that was refused room for growth is queued once more with what it asked for.
void Ledger::load_failed(Entry& entry, const Error& error, TimePoint now, Decisions& out) {
  charges_.sub(Kind::loading, std::exchange(entry.claimed, 0));
  drop_segments(entry, Holding::loading);
  out.events.emplace_back(LoadEnded{entry.spec, 0, now - entry.phase_since, error});
  if (entry.refused_at == 0) {
    fail_load(entry, error, now, out);
    return;
  }
  // A claim below the loader's own figure was no try: that one may do, and less than was asked for in steps.
  const bool tried = entry.estimate.private_bytes >= entry.told_bytes;
  const std::size_t asked = std::exchange(entry.refused_at, 0);
  entry.estimate.private_bytes = tried ? std::max(entry.estimate.private_bytes, asked) : entry.told_bytes;
  entry.told_bytes = entry.estimate.private_bytes;
  if ((tried && entry.attempts++ > 0) || entry.waiters.empty()) {
    fail_load(entry, no_room(entry), now, out);
    return;
  }
  move_to(entry, Phase::queued, now);
  claim(entry, now);
}

Error Ledger::no_room(const Entry& entry) const {
  const std::size_t bytes = bytes_beside_pinned(entry);
  const std::size_t room = room_for(&entry);
  if (bytes > room) {
    return {ErrorCode::cannot_fit, "model '" + entry.spec.name + "' needs " + std::to_string(bytes) +
                                       " bytes; at most " + std::to_string(room) + " can be made free"};
  }
  return {ErrorCode::all_in_use, "no room for model '" + entry.spec.name + "': what could go is in use"};
}

/// Ends a load that holds nothing but joined segments. Calls that wanted a newer artifact of a model in memory fall
/// back to the one that is there (R2); everyone else gets the error (R12).
void Ledger::fail_load(Entry& entry, const Error& error, TimePoint now, Decisions& out) {
  if (error.code == ErrorCode::model_broken) {
    broken_.remember(entry.spec.artifact, error, now);
  }
  NameSlot* slot = directory_.find(entry.spec);
  if (slot != nullptr && slot->next == &entry) {
    if (error.code == ErrorCode::cannot_fit || error.code == ErrorCode::all_in_use) {
      slot->retry_at = now + BrokenMemory::keep;
    }
    std::deque<Waiter> calls;
    std::ranges::copy_if(entry.waiters, std::back_inserter(calls),
                         [](const Waiter& waiter) { return waiter.kind == Waiter::Kind::call; });
    std::erase_if(entry.waiters, [](const Waiter& waiter) { return waiter.kind == Waiter::Kind::call; });
    answer_all(entry, error, out);
    entry.waiters = std::move(calls);
    hand_over(entry, *slot->current, now);
  }
  answer_all(entry, error, out);
  erase(entry, out);
}

/// Takes what the footprint names for the entry's charge, instead of the claim. False when that would be more than the
/// budget allows; then nothing has changed.
bool Ledger::settle(Entry& entry, const loader::Footprint& footprint) {
  std::unordered_set<const SegmentRecord*> named;
  std::unordered_set<std::string_view> fresh;
  std::size_t needed = footprint.private_bytes + footprint.code_bytes;
  for (const loader::Segment& segment : footprint.segments) {
    if (const SegmentRecord* record = segments_.find(segment.key)) {
      named.insert(record);
    } else if (fresh.insert(segment.key).second) {
      needed += segment.bytes;
    }
  }
  std::size_t freed = entry.claimed;
  for (const SegmentRecord* record : entry.segments) {
    freed += !named.contains(record) && record->holders() == 1 ? record->bytes : 0;
  }
  if (needed > freed && static_cast<Signed>(needed - freed) > free_for_loads()) {
    return false;
  }
  std::unordered_set<const SegmentRecord*> held;
  std::vector<SegmentRecord*> kept;
  for (SegmentRecord* record : entry.segments) {
    if (named.contains(record)) {
      kept.push_back(record);
      held.insert(record);
    } else {
      segments_.drop(record, Holding::loading);
    }
  }
  for (const loader::Segment& segment : footprint.segments) {
    SegmentRecord* record = segments_.find(segment.key);
    if (record == nullptr || !held.contains(record)) {
      record = segments_.hold(segment, Holding::loading);
      kept.push_back(record);
      held.insert(record);
    }
  }
  entry.segments = std::move(kept);
  charges_.sub(Kind::loading, std::exchange(entry.claimed, 0));
  entry.private_bytes = footprint.private_bytes;
  entry.code_bytes = footprint.code_bytes;
  entry.loaded_code_bytes = footprint.code_bytes;
  charges_.add(Kind::weights, entry.private_bytes);
  charges_.add(Kind::code, entry.code_bytes);
  return true;
}

void Ledger::become_ready(Entry& entry, Loaded loaded, TimePoint now, Decisions& out) {
  std::size_t bytes = entry.own_bytes();
  for (SegmentRecord* segment : entry.segments) {
    segments_.move(segment, Holding::loading, Holding::ready);
    bytes += segment->bytes;
  }
  out.events.emplace_back(LoadEnded{entry.spec, bytes, now - entry.phase_since, std::nullopt});
  entry.model = std::move(loaded.model);
  entry.stateless = loaded.stateless;
  entry.mapped_bytes = loaded.footprint.mapped_bytes;
  entry.way = loaded.footprint.way;
  entry.way_reason = std::move(loaded.footprint.way_reason);
  entry.estimate = {};
  entry.joined.clear();
  move_to(entry, Phase::ready, now);
  entry.recency = recency_.insert(recency_.end(), &entry);
  entry.last_used = now;
  if (entry.spec.settings.pinned) {
    pinned_.insert(&entry);
  }
  set_floor_share(entry, entry.peaks->smallest());
  broken_.forget(entry.spec.artifact);
  std::deque<Waiter> calls;
  for (Waiter& waiter : entry.waiters) {
    if (waiter.kind == Waiter::Kind::call) {
      waiter.load = now - waiter.since;
      calls.push_back(waiter);
      continue;
    }
    waiting_.erase(waiter.ticket);
    if (waiter.kind == Waiter::Kind::load) {
      out.done.push_back(waiter.ticket);
    } else {
      out.failures.push_back(
          {waiter.ticket, {ErrorCode::already_loaded, "model '" + entry.spec.name + "' is loaded already"}});
    }
  }
  entry.waiters = std::move(calls);
  take_turn(entry);
  NameSlot* slot = directory_.find(entry.spec);
  if (slot != nullptr && slot->next == &entry) {  // R2: flip, then drain the old
    Entry& old = *std::exchange(slot->current, std::exchange(slot->next, nullptr));
    slot->previous = old.spec.artifact;
    doom(old, EvictionReason::file_changed, now, out);
  }
  maybe_retire(entry, now, out);
}

/// A model came that is larger than there is room for: it goes back at once, charged for its claim until its memory is
/// back, and is tried once more with the size it proved to have.
void Ledger::undo_load(Entry& entry, Loaded loaded, TimePoint now, Decisions& out) {
  loader::Estimate learned{loaded.footprint.segments, loaded.footprint.private_bytes + loaded.footprint.code_bytes};
  const bool tried = entry.estimate.private_bytes >= entry.told_bytes;
  keep_first_of_each_key(learned.segments);
  const Error error{ErrorCode::all_in_use, "model '" + entry.spec.name + "' is larger than was told"};
  out.events.emplace_back(LoadEnded{entry.spec, 0, now - entry.phase_since, error});
  entry.private_bytes = std::exchange(entry.claimed, 0);
  charges_.move(Kind::loading, Kind::draining, entry.private_bytes);
  for (SegmentRecord* segment : entry.segments) {
    segments_.move(segment, Holding::loading, Holding::draining);
  }
  move_to(entry, Phase::evicting, now);
  out.destructions.push_back({entry.id, std::move(loaded.model)});
  if (entry.waiters.empty()) {
    detach(entry);
    return;
  }
  Entry& again = restart(entry, std::move(learned), now, out);
  again.attempts = entry.attempts + (tried ? 1 : 0);
  if (again.attempts > 1) {
    fail_load(again, no_room(again), now, out);
  }
}

/// A new entry in the place of one that leaves while callers wait for it; they wait for the new one.
Entry& Ledger::restart(Entry& entry, loader::Estimate estimate, TimePoint now, Decisions&) {
  Entry& fresh = make(entry.spec, now);
  fresh.began = entry.began;
  fresh.doomed = entry.doomed;
  fresh.doom_reason = entry.doom_reason;
  fresh.estimate = std::move(estimate);
  fresh.told_bytes = fresh.estimate.private_bytes;
  fresh.facts = entry.facts;
  if (NameSlot* slot = directory_.find(entry.spec)) {
    for (Entry** place : {&slot->current, &slot->next}) {
      *place = *place == &entry ? &fresh : *place;
    }
  }
  entry.doomed = true;
  move_to(fresh, Phase::queued, now);
  hand_over(entry, fresh, now);
  claim(fresh, now);
  return fresh;
}

void Ledger::memory_back(EntryId id, TimePoint now, Decisions& out) {
  const auto found = entries_.find(id);
  assert(found != entries_.end() && found->second->phase == Phase::evicting);
  Entry& entry = *found->second;
  drop_segments(entry, Holding::draining);
  charges_.sub(Kind::draining, entry.own_bytes());
  erase(entry, out);
  pump(now, out);
}

/// R3: what others hold is held as soon as a claim is looked at, so that it cannot leave for its own sake. A segment on
/// its way out cannot be joined.
void Ledger::join_segments(Entry& entry) {
  entry.joined.resize(entry.estimate.segments.size(), false);
  for (std::size_t i = 0; i < entry.joined.size(); ++i) {
    const loader::Segment& segment = entry.estimate.segments[i];
    const SegmentRecord* record = entry.joined[i] ? nullptr : segments_.find(segment.key);
    if (record != nullptr && record->live() > 0) {
      entry.segments.push_back(segments_.hold(segment, Holding::loading));
      entry.joined[i] = true;
    }
  }
}

void Ledger::drop_segments(Entry& entry, Holding from) noexcept {
  for (SegmentRecord* segment : entry.segments) {
    segments_.drop(segment, from);
  }
  entry.segments.clear();
  entry.joined.clear();
}

}  // namespace mme::cache
