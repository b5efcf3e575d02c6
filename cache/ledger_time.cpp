// The ledger as time goes by: deadlines, load time-outs, claims that waited too long, idle models, stuck work.
// Nothing here makes room by itself; tick() ends in pump().
#include <algorithm>

#include "cache/ledger.hpp"

namespace mme::cache {
namespace {

constexpr std::chrono::seconds stuck_after{5};
constexpr std::chrono::seconds platform_activation_wait{1};

Error stuck(const Entry& entry) {
  return {ErrorCode::quarantined, "earlier work of model '" + entry.spec.name + "' is stuck"};
}

}  // namespace

void Ledger::tick(TimePoint now, Decisions& out) {
  expire(now, out);
  expire_claims(now, out);
  expire_idle(now, out);
  quarantine_calls(now, out);
  quarantine_loads(now, out);
  pump(now, out);
}

void Ledger::expire(TimePoint now, Decisions& out) {
  for (auto at = unloads_.begin(); at != unloads_.end();) {
    if (at->second.deadline > now) {
      ++at;
      continue;
    }
    out.failures.push_back(
        {at->first,
         {ErrorCode::deadline_exceeded, "model '" + at->second.name + "' is still in use; it leaves later"}});
    at = unloads_.erase(at);
  }
  std::set<EntryId> waited_for;
  for (const auto& [ticket, entry] : waiting_) {
    waited_for.insert(entry->id);
  }
  for (const EntryId id : waited_for) {
    if (const auto found = entries_.find(id); found != entries_.end()) {
      expire_waiters(*found->second, now, out);
    }
  }
}

void Ledger::expire_waiters(Entry& entry, TimePoint now, Decisions& out) {
  const bool working = entry.phase == Phase::estimating || entry.phase == Phase::reading;
  if (working && now - entry.phase_since >= options_.load_timeout) {
    answer_all(entry, {ErrorCode::load_timeout, "loading model '" + entry.spec.name + "' takes long; it goes on"}, out);
    stop_if_unwanted(entry, out);
    return;  // otherwise it goes on without callers, estimating too
  }
  const std::size_t before = entry.waiters.size();
  std::erase_if(entry.waiters, [&](const Waiter& waiter) {
    if (waiter.request.deadline > now) {
      return false;
    }
    waiting_.erase(waiter.ticket);
    const Error error{ErrorCode::deadline_exceeded, "the deadline of the request has passed"};
    out.failures.push_back({waiter.ticket, error});
    out.events.emplace_back(Refused{entry.spec, error});
    return true;
  });
  if (entry.waiters.size() != before) {
    after_leaving(entry, now, out);
  }
}

/// R6: a claim that found no room for room_wait is refused. R16: in platform mode calls wait a second.
void Ledger::expire_claims(TimePoint now, Decisions& out) {
  for (auto at = claims_.begin(); at != claims_.end();) {
    Entry& entry = *(at++)->second;
    if (!short_since_) {
      return;
    }
    const bool call = entry.phase == Phase::ready;
    const std::chrono::nanoseconds limit =
        call && !options_.evicts ? std::chrono::nanoseconds{platform_activation_wait} : options_.room_wait;
    if (now - short_since(entry) < limit) {
      continue;
    }
    if (!call && claim_as_told(entry)) {
      continue;  // tick() ends in a look whether that fits
    }
    if (!call) {
      fail_load(entry, {ErrorCode::all_in_use, "no room for model '" + entry.spec.name + "': what could go is in use"},
                now, out);
      continue;
    }
    refuse_first(entry, now, out);
  }
}

void Ledger::expire_idle(TimePoint now, Decisions& out) {
  if (!options_.idle_unload || !options_.evicts) {
    return;
  }
  std::vector<Entry*> idle;
  for (Entry* entry : recency_) {
    if (now - entry->last_used < *options_.idle_unload) {
      break;
    }
    if (may_go(*entry, nullptr)) {
      idle.push_back(entry);
    }
  }
  for (Entry* entry : idle) {
    evict(*entry, EvictionReason::idle, {}, now, out);
  }
}

/// R15: work that is far past its time is written off. Its bytes stay charged; the model answers no more until the work
/// has ended, and a replacement thread takes its slot, as often as there are slots.
void Ledger::quarantine_calls(TimePoint now, Decisions& out) {
  for (GrantAccount& account : accounts_) {
    Entry* entry = account.running;
    if (entry == nullptr || account.written_off || account.deadline > now - stuck_after ||
        written_off_ >= options_.compute_slots) {
      continue;
    }
    account.written_off = true;
    ++written_off_;
    --running_;
    if (account.alone) {
      alone_ = false;
    }
    entry->quarantined = true;
    answer_all(*entry, stuck(*entry), out);
    out.events.emplace_back(Quarantined{entry->spec, StuckWork::call});
  }
}

void Ledger::quarantine_loads(TimePoint now, Decisions& out) {
  for (Entry* entry : readers_) {
    const std::size_t written_off = readers_.size() - reading_;
    if (entry->quarantined || now - entry->phase_since < options_.load_timeout + stuck_after ||
        written_off >= options_.loads_at_once) {
      continue;
    }
    entry->quarantined = true;
    --reading_;
    answer_all(*entry, stuck(*entry), out);
    stop_if_unwanted(*entry, out);
    out.events.emplace_back(Quarantined{entry->spec, StuckWork::load});
  }
}

}  // namespace mme::cache
