// The ledger's grants: bytes of calls, bodies and loads that grow and shrink while they run (R10).
// grow, shrink and keep are called from inside allocators: they only count.
#include <algorithm>
#include <cassert>

#include "cache/faults.hpp"
#include "cache/ledger.hpp"

namespace mme::cache {

bool Ledger::fits_growth(bool of_load) const noexcept {
  return (of_load ? free_for_loads() : free_for_calls()) >= 0;  // what was promised counts as taken already
}

bool Ledger::grow(GrantAccount& account, std::size_t bytes) noexcept {
  if (!account.open || static_cast<Signed>(bytes) > free_for_calls()) {
    return false;
  }
  account.held += bytes;
  charges_.add(account.kind, bytes);
  moved_since_pump_ = true;
  return true;
}

void Ledger::shrink(GrantAccount& account, std::size_t bytes) noexcept {
  assert(bytes <= account.held);
  bytes = std::min(bytes, account.held);
  account.held -= bytes;
  charges_.sub(account.kind, bytes);
  moved_since_pump_ = true;
}

void Ledger::keep(GrantAccount& account, std::size_t bytes, bool in_code) noexcept {
  const auto found = entries_.find(account.entry);
  if (found == entries_.end()) {
    return;  // the model is gone: what was kept went with it, the grant's end gives the bytes back
  }
  assert(bytes <= account.held);
  bytes = std::min(bytes, account.held);
  Entry& entry = *found->second;
  account.held -= bytes;
  const auto code = std::ranges::find_if(entry.segments, [](const SegmentRecord* each) { return each->code; });
  if (in_code && code != entry.segments.end()) {
    SegmentTable::grow(**code, bytes);
    charges_.move(account.kind, (*code)->kind(), bytes);
    return;
  }
  entry.code_bytes += bytes;
  if (entry.facts) {
    facts_.kept(*entry.facts, entry.code_bytes - entry.loaded_code_bytes);
  }
  charges_.move(account.kind, entry.phase == Phase::evicting ? Kind::draining : Kind::code, bytes);
}

/// R16 aside, a body that finds no room lets idle models go, so that the next try finds some.
bool Ledger::open_body(GrantAccount& account, std::size_t bytes, TimePoint now, Decisions& out) {
  if (static_cast<Signed>(bytes) > free_for_calls()) {
    if (begin_growth(false, bytes, 0, now, out)) {
      end_growth(bytes);
    }
    return false;
  }
  account.kind = Kind::bodies;
  account.held = bytes;
  account.open = true;
  charges_.add(account.kind, bytes);
  moved_since_pump_ = true;
  accounts_.push_back(account);
  return true;
}

void Ledger::close(GrantAccount& account, TimePoint now, Decisions& out) {
  if (!account.open) {
    return;
  }
  assert(account.running == nullptr);
  if (!fault("grant_not_returned")) {
    shrink(account, account.held);
  }
  accounts_.erase(accounts_.iterator_to(account));
  account.open = false;
  moved_since_pump_ = false;
  if (!fault("wake_up_dropped")) {
    pump(now, out);
  }
}

std::size_t Ledger::load_holds(EntryId id) const noexcept {
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second->phase == Phase::reading ? found->second->claimed : 0;
}

bool Ledger::grow_load(EntryId id, std::size_t bytes) noexcept {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->phase != Phase::reading ||
      static_cast<Signed>(bytes) > free_for_loads()) {
    return false;
  }
  found->second->claimed += bytes;
  charges_.add(Kind::loading, bytes);
  moved_since_pump_ = true;
  return true;
}

void Ledger::shrink_load(EntryId id, std::size_t bytes) noexcept {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->phase != Phase::reading) {
    return;  // the load is over: its bytes are the model's, and leave with it
  }
  bytes = std::min(bytes, found->second->claimed);
  found->second->claimed -= bytes;
  charges_.sub(Kind::loading, bytes);
  moved_since_pump_ = true;
}

/// The bytes that a load must ask for before leave_segment(), because others hold the segment too. nullopt: none; it
/// was this load's alone, or is none of its segments, and its bytes are private now.
std::optional<std::size_t> Ledger::make_private(EntryId id, const loader::Segment& segment) noexcept {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->phase != Phase::reading) {
    return segment.bytes;
  }
  Entry& entry = *found->second;
  const auto at = std::ranges::find(entry.segments, segment.key, &SegmentRecord::key);
  if (at == entry.segments.end() || (*at)->holders() > 1 || (*at)->bytes != segment.bytes) {
    count_as_private(entry, segment);
    return segment.bytes;
  }
  count_as_private(entry, segment);
  leave_segment(id, segment);
  entry.claimed += segment.bytes;
  charges_.add(Kind::loading, segment.bytes);
  return std::nullopt;
}

/// From now on this load, and its second try if it is refused room, claims the bytes for itself.
void Ledger::count_as_private(Entry& entry, const loader::Segment& segment) noexcept {
  auto& named = entry.estimate.segments;
  const auto at = std::ranges::find(named, segment.key, &loader::Segment::key);
  if (at != named.end()) {
    entry.estimate.private_bytes += at->bytes;
    entry.told_bytes += at->bytes;
    named.erase(at);
  }
}

void Ledger::leave_segment(EntryId id, const loader::Segment& segment) noexcept {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second->phase != Phase::reading) {
    return;
  }
  Entry& entry = *found->second;
  const auto at = std::ranges::find(entry.segments, segment.key, &SegmentRecord::key);
  if (at != entry.segments.end()) {
    segments_.drop(*at, Holding::loading);
    entry.segments.erase(at);
    moved_since_pump_ = true;
  }
}

/// Remembers what a load asked for in vain, for its second try.
void Ledger::refuse_load(EntryId id, std::size_t bytes) noexcept {
  const auto found = entries_.find(id);
  if (found != entries_.end() && found->second->phase == Phase::reading) {
    Entry& entry = *found->second;
    entry.refused_at = std::max(entry.refused_at, entry.claimed + bytes);
  }
}

bool Ledger::begin_growth(bool of_load, std::size_t bytes, EntryId cause, TimePoint now, Decisions& out) {
  const Signed free = of_load ? free_for_loads() : free_for_calls();
  const Signed need = static_cast<Signed>(bytes) - free - static_cast<Signed>(charges_.use().draining);
  if (need > 0) {
    if (!options_.evicts) {
      return false;
    }
    const auto chosen = victims(idle_entries(nullptr), static_cast<std::size_t>(need));
    if (!chosen) {
      return false;
    }
    const auto found = entries_.find(cause);
    const std::string name = found == entries_.end() ? std::string() : found->second->spec.name;
    for (Entry* entry : *chosen) {
      evict(*entry, of_load ? EvictionReason::room : EvictionReason::activations, name, now, out);
    }
  }
  promised_ += bytes;
  moved_since_pump_ = true;
  return true;
}

}  // namespace mme::cache
