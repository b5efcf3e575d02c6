// The ledger towards callers: acquire, load, unload, leave, time, budget.
// Who gets room is decided in ledger_room.cpp, who runs in ledger_calls.cpp.
#include "cache/ledger.hpp"

#include <algorithm>
#include <utility>

#include "cache/faults.hpp"

namespace mme::cache {
namespace {

Error too_small(std::size_t budget) {
  return loader::fail(ErrorCode::conflict,
                      "pinned models and the activation floor do not fit in " + std::to_string(budget) + " bytes");
}

}  // namespace

Ledger::Ledger(CacheOptions options) : options_(std::move(options)), ceiling_(options_.budget) {
  options_.compute_slots = std::max<std::size_t>(1, options_.compute_slots);
  options_.loads_at_once = std::max<std::size_t>(1, options_.loads_at_once);
  facts_.restore(std::exchange(options_.learned, {}), options_.budget);
}

// --- names and entries

Ledger::Answer Ledger::refuse(const ModelSpec& spec, ErrorCode code, std::string message, Decisions& out) {
  Answer answer;
  answer.error = Error{code, std::move(message)};
  out.events.emplace_back(Refused{spec, *answer.error});
  return answer;
}

/// The entry that answers for an artifact, or null when a load must begin. `insist`: an explicit load, which tries
/// again what lately failed.
Entry* Ledger::serving(NameSlot& slot, const loader::ArtifactId& artifact, TimePoint now, bool insist) {
  if (slot.next != nullptr && slot.next->spec.artifact == artifact) {
    return slot.next;
  }
  if (!options_.evicts || slot.current->spec.artifact == artifact || slot.previous == artifact) {
    return slot.current;
  }
  const bool lately_failed = now < slot.retry_at || broken_.find(artifact, now) != nullptr;
  return lately_failed && !insist && slot.current->phase == Phase::ready ? slot.current : nullptr;
}

Entry& Ledger::make(const ModelSpec& spec, TimePoint now) {
  const EntryId id = next_id_++;
  Entry& entry = *entries_.emplace(id, std::make_unique<Entry>()).first->second;
  entry.id = id;
  entry.spec = spec;
  entry.began = now;
  entry.phase_since = now;
  entry.last_used = now;
  entry.peaks = peaks_.of(spec.artifact);
  return entry;
}

Entry& Ledger::begin(const ModelSpec& spec, TimePoint now, Decisions& out) {
  NameSlot& slot = directory_.open(spec);
  Entry& entry = make(spec, now);
  if (slot.current == nullptr) {
    slot.current = &entry;
  } else {
    if (slot.next != nullptr) {
      doom(*slot.next, EvictionReason::replaced, now, out);
    }
    slot.next = &entry;
  }
  out.estimates.push_back({entry.id, spec, {}});
  return entry;
}

void Ledger::move_to(Entry& entry, Phase phase, TimePoint now) noexcept {
  entry.phase = phase;
  entry.phase_since = now;
}

void Ledger::detach(Entry& entry) noexcept {
  directory_.remove(entry);
}

void Ledger::doom(Entry& entry, EvictionReason reason, TimePoint now, Decisions& out) {
  detach(entry);
  entry.doomed = true;
  entry.doom_reason = reason;
  if (entry.loading() && entry.phase != Phase::reading && entry.waiters.empty()) {
    erase(entry, out);
    return;
  }
  stop_if_unwanted(entry, out);
  maybe_retire(entry, now, out);
}

/// Tells the loader of a read whose model could only go at once: it is doomed, or no caller can come any more.
void Ledger::stop_if_unwanted(Entry& entry, Decisions& out) {
  if (entry.phase == Phase::reading && entry.waiters.empty() && (entry.doomed || stopping_)) {
    out.stops.push_back(entry.stop);
  }
}

/// For an entry that holds nothing any more, or whose load ended in nothing.
void Ledger::erase(Entry& entry, Decisions& out) {
  const EntryId id = entry.id;
  detach(entry);
  drop_claim(entry);
  drop_segments(entry, Holding::loading);
  entries_.erase(id);
  gone(id, out);
}

/// Tells the unloads that waited for an entry's memory.
void Ledger::gone(EntryId id, Decisions& out) {
  for (auto at = unloads_.begin(); at != unloads_.end();) {
    at->second.waiting_for.erase(id);
    if (at->second.waiting_for.empty()) {
      out.done.push_back(at->first);
      at = unloads_.erase(at);
    } else {
      ++at;
    }
  }
}

// --- callers

Ledger::Answer Ledger::acquire(const ModelSpec& spec, const CallRequest& request, GrantAccount& account, TimePoint now,
                               Decisions& out) {
  if (stopping_) {
    return refuse(spec, ErrorCode::shutting_down, "the server is shutting down", out);
  }
  if (request.deadline <= now) {
    return refuse(spec, ErrorCode::deadline_exceeded, "the deadline of the request has passed", out);
  }
  NameSlot* slot = directory_.find(spec);
  Entry* entry = slot == nullptr ? nullptr : serving(*slot, spec.artifact, now, false);
  if (fault("second_load") && entry != nullptr && entry->loading()) {
    entry = nullptr;
  }
  Answer answer;
  if (entry == nullptr) {
    if (!options_.evicts) {
      return refuse(spec, ErrorCode::model_unknown, "model '" + spec.name + "' is not loaded", out);
    }
    if (const Error* known = broken_.find(spec.artifact, now)) {
      return refuse(spec, known->code, known->message, out);
    }
    entry = &begin(spec, now, out);
  } else {
    answer.found = entry->phase == Phase::ready ? CacheResult::hit : CacheResult::joined;
    // Settings of a model may change while it is in memory; callers bring them as they are now.
    if (entry->spec.settings.pinned != spec.settings.pinned) set_pinned(*entry, spec.settings.pinned);
  }
  if (entry->quarantined) {
    return refuse(spec, ErrorCode::quarantined, "earlier work of model '" + spec.name + "' is stuck", out);
  }
  Waiter waiter{.request = request, .account = &account, .since = now, .result = answer.found};
  if (entry->phase == Phase::ready && entry->waiters.empty() && obstacle(*entry, waiter, now) == Obstacle::none) {
    answer.terms = start(*entry, waiter, now);
    return answer;
  }
  if (waiting_calls(*entry) >= spec.settings.queue_size.value_or(options_.queue_size)) {
    Answer full = refuse(spec, ErrorCode::queue_full, "too many calls wait for model '" + spec.name + "'", out);
    if (entry->waiters.empty()) {
      after_leaving(*entry, now, out);
    }
    return full;
  }
  recent_.touch(entry->id, now);
  answer.ticket = enqueue(*entry, waiter);
  pump(now, out);
  return answer;
}

Ledger::Answer Ledger::load(const ModelSpec& spec, Deadline deadline, TimePoint now, Decisions& out) {
  if (stopping_) {
    return refuse(spec, ErrorCode::shutting_down, "the server is shutting down", out);
  }
  NameSlot* slot = directory_.find(spec);
  Entry* entry = slot == nullptr ? nullptr : serving(*slot, spec.artifact, now, true);
  if (entry != nullptr && entry->phase == Phase::ready) {
    return refuse(spec, ErrorCode::already_loaded, "model '" + spec.name + "' is loaded already", out);
  }
  Waiter waiter;
  waiter.kind = Waiter::Kind::joined_load;
  waiter.since = now;
  waiter.request.deadline = deadline;
  Answer answer;
  answer.found = CacheResult::joined;
  if (entry == nullptr) {
    broken_.forget(spec.artifact);
    entry = &begin(spec, now, out);
    waiter.kind = Waiter::Kind::load;
    answer.found = CacheResult::miss;
  }
  answer.ticket = enqueue(*entry, waiter);
  return answer;
}

Ledger::Answer Ledger::unload(const std::string& name, const std::optional<std::string>& version, Deadline deadline,
                              TimePoint now, Decisions& out) {
  std::vector<Entry*> leaving;
  for (const NameSlot* slot : directory_.matching(name, version)) {
    for (Entry* entry : {slot->next, slot->current}) {
      if (entry != nullptr) {
        leaving.push_back(entry);
      }
    }
  }
  Answer answer;
  if (leaving.empty()) {
    answer.error = Error{ErrorCode::model_unknown, "model '" + name + "' is not loaded"};
    return answer;
  }
  answer.ticket = next_id_++;
  Unload& unload = unloads_[answer.ticket];
  unload = {.waiting_for = {}, .deadline = deadline, .name = name};
  for (const Entry* entry : leaving) {
    unload.waiting_for.insert(entry->id);
  }
  for (Entry* entry : leaving) {
    if (entry->loading() && entry->phase != Phase::reading) {
      answer_all(*entry, {ErrorCode::conflict, "model '" + name + "' was unloaded while it was waited for"}, out);
    }
    doom(*entry, EvictionReason::unload, now, out);
  }
  pump(now, out);
  return answer;
}

bool Ledger::leave(Ticket ticket, TimePoint now, Decisions& out) {
  if (unloads_.erase(ticket) > 0) {
    return true;
  }
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) {
    return false;
  }
  Entry& entry = *found->second;
  waiting_.erase(found);
  std::erase_if(entry.waiters, [&](const Waiter& waiter) { return waiter.ticket == ticket; });
  after_leaving(entry, now, out);
  pump(now, out);
  return true;
}

void Ledger::stop(TimePoint now, Decisions& out) {
  stopping_ = true;
  for (const auto& [id, entry] : entries_) {
    stop_if_unwanted(*entry, out);
  }
  pump(now, out);
}

void Ledger::close(TimePoint now, Decisions& out) {
  stopping_ = true;
  std::vector<EntryId> ids;
  for (const auto& [id, entry] : entries_) {
    ids.push_back(id);
  }
  for (const EntryId id : ids) {
    const auto found = entries_.find(id);
    if (found == entries_.end() || found->second->phase == Phase::evicting) {
      continue;
    }
    answer_all(*found->second, {ErrorCode::shutting_down, "the server is shutting down"}, out);
    doom(*found->second, EvictionReason::unload, now, out);
  }
}

void Ledger::set_pinned(Entry& entry, bool pinned) {
  entry.spec.settings.pinned = pinned;
  if (entry.phase != Phase::ready) return;  // becomes it when it is ready
  if (pinned) {
    pinned_.insert(&entry);
  } else {
    pinned_.erase(&entry);
  }
}

/// What is pinned only from now on counts too: the books are looked at as they will be.
Result<void> Ledger::set_limits(const CacheLimits& limits, const std::set<std::string>& pinned, TimePoint now,
                                Decisions& out) {
  auto pinned_before = std::exchange(pinned_, {});
  for (const auto& [id, entry] : entries_) {
    if (entry->phase == Phase::ready && pinned.contains(entry->spec.name)) pinned_.insert(entry.get());
  }
  if (limits.budget < pinned_bytes() + limits.activation_floor) {
    pinned_ = std::move(pinned_before);
    return too_small(limits.budget);
  }
  for (const auto& [id, entry] : entries_) entry->spec.settings.pinned = pinned.contains(entry->spec.name);
  options_.activation_floor = limits.activation_floor;
  options_.queue_size = limits.queue_size;
  options_.room_wait = limits.room_wait;
  options_.claim_after = limits.claim_after;
  options_.load_timeout = limits.load_timeout;
  options_.idle_unload = limits.idle_unload;
  return set_budget(limits.budget, now, out);
}

Result<void> Ledger::set_budget(std::size_t bytes, TimePoint now, Decisions& out) {
  if (bytes < pinned_bytes() + options_.activation_floor) return too_small(bytes);
  ceiling_ = std::max(bytes, charges_.total());
  options_.budget = bytes;
  relieving_ = true;
  pump(now, out);
  return {};
}

// --- waiters

std::size_t Ledger::waiting_calls(const Entry& entry) const noexcept {
  return static_cast<std::size_t>(std::ranges::count(entry.waiters, Waiter::Kind::call, &Waiter::kind));
}

Ticket Ledger::enqueue(Entry& entry, Waiter waiter) {
  waiter.ticket = next_id_++;
  waiting_[waiter.ticket] = &entry;
  entry.waiters.push_back(waiter);
  take_turn(entry);
  return waiter.ticket;
}

void Ledger::answer_all(Entry& entry, const Error& error, Decisions& out) {
  for (const Waiter& waiter : entry.waiters) {
    waiting_.erase(waiter.ticket);
    out.failures.push_back({waiter.ticket, error});
    out.events.emplace_back(Refused{entry.spec, error});
  }
  entry.waiters.clear();
  leave_turn(entry);
}

/// The calls that wait for `from` wait for `to` from now on, before those that came to it by themselves.
void Ledger::hand_over(Entry& from, Entry& to, TimePoint now) {
  leave_turn(from);
  for (auto waiter = from.waiters.rbegin(); waiter != from.waiters.rend(); ++waiter) {
    waiting_[waiter->ticket] = &to;
    if (to.phase == Phase::ready) {
      waiter->load = now - waiter->since;
    }
    to.waiters.push_front(*waiter);
  }
  from.waiters.clear();
  take_turn(to);
}

/// R11: a load that nobody waits for ends, unless it is reading already.
void Ledger::after_leaving(Entry& entry, TimePoint now, Decisions& out) {
  if (!entry.waiters.empty()) {
    if (entry.phase == Phase::ready) {
      drop_claim(entry);  // a claim stands for the first waiter; if need be it is made anew
    }
    return;
  }
  leave_turn(entry);
  if (entry.loading() && entry.phase != Phase::reading) {
    erase(entry, out);
    return;
  }
  stop_if_unwanted(entry, out);
  maybe_retire(entry, now, out);
}

}  // namespace mme::cache
