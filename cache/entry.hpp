// One model in the ledger's books: its state, what it is charged for, who waits for it.
// Only the ledger moves an entry; nothing here decides.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "cache/learned_facts.hpp"
#include "cache/observer.hpp"
#include "cache/segments.hpp"
#include "cache/types.hpp"

namespace mme::cache {

using EntryId = std::uint64_t;

struct Entry;

/// Bytes that one call, or one body, holds. Owned by a grant of the shell, listed by the ledger while it is open: from
/// the start of the lease to the end of the grant, which may be later.
struct GrantAccount : boost::intrusive::list_base_hook<> {
  Kind kind = Kind::activations;
  std::size_t held = 0;
  bool open = false;
  EntryId entry = 0;         ///< the model that keep() charges; may be gone
  Entry* running = nullptr;  ///< while the lease lives
  Deadline deadline = Deadline::max();
  bool alone = false;        ///< no other call may run
  bool written_off = false;  ///< stuck: its slot went to a replacement thread (R15)
};

/// A caller that waits: for the model to come, then for a slot and room.
struct Waiter {
  enum class Kind { call, load, joined_load };
  Ticket ticket = 0;
  Kind kind = Kind::call;
  CallRequest request;
  GrantAccount* account = nullptr;  ///< calls only
  TimePoint since;
  CacheResult result = CacheResult::miss;
  std::chrono::nanoseconds load{0};  ///< waited for the model
};

///                    .-- no caller left, unload, error -> gone
///                   /                /              /
/// (begin) estimating --ok--> queued --admitted--> reading --ok--> ready --retire--> evicting --memory back--> gone
///                              ^------- outgrew its estimate, once ---'
///
/// estimating  holds nothing
/// queued      has a claim, in the order of the claim queue; at its head holds the segments that others hold as well
/// reading     is charged for its claim, as loading
/// ready       is charged for its measured footprint; on the recency list; has a model
/// evicting    out of look-up, charged as draining until the memory is back; the model is with the reaper
/// Only an entry without leases, pins or (unless condemned) waiting calls may retire.
enum class Phase { estimating, queued, reading, ready, evicting };

struct Entry {
  EntryId id = 0;
  ModelSpec spec;
  Phase phase = Phase::estimating;
  TimePoint began;        ///< when a caller first asked for it
  TimePoint phase_since;  ///< when it came to this phase
  bool doomed = false;    ///< out of look-up for good: leaves when the last caller is done
  EvictionReason doom_reason = EvictionReason::unload;
  bool condemned = false;    ///< no new leases: an overdue claim wants its bytes (R6)
  bool quarantined = false;  ///< a call or load of it is stuck (R15)
  unsigned attempts = 0;     ///< loads that outgrew their estimate

  loader::Estimate estimate;                ///< while loading
  std::size_t told_bytes = 0;               ///< private bytes that the loader estimated, or that an earlier try proved
  std::vector<bool> joined;                 ///< queued: which segments of the estimate it holds
  std::size_t claimed = 0;                  ///< reading: private bytes charged as loading
  std::size_t refused_at = 0;               ///< reading: most private bytes it asked for in vain
  std::stop_source stop{std::nostopstate};  ///< reading: tells the loader that nobody wants it any more
  std::vector<SegmentRecord*> segments;     ///< held, each once
  std::size_t private_bytes = 0;            ///< ready, evicting
  std::size_t code_bytes = 0;               ///< ready, evicting
  std::size_t loaded_code_bytes = 0;        ///< ready, evicting: code_bytes before any call
  std::size_t mapped_bytes = 0;             ///< ready, evicting: part of private_bytes
  std::optional<loader::LoadWay> way;       ///< ready, evicting
  std::string way_reason;                   ///< for status alone

  std::unique_ptr<loader::Model> model;
  bool stateless = true;
  std::size_t leases = 0;
  std::size_t pins = 0;     ///< visits that keep the model, without a slot
  std::size_t unknown = 0;  ///< leases whose peak was not known
  TimePoint last_used;
  std::shared_ptr<LearnedPeaks> peaks;
  std::shared_ptr<ArtifactFacts> facts;  ///< of its content, from the estimate on; null when that has no digest
  std::size_t floor_share = 0;           ///< what it adds to the ledger's set of learned batch-1 peaks

  std::deque<Waiter> waiters;
  std::optional<std::list<Entry*>::iterator> recency;  ///< ready only
  std::optional<std::list<Entry*>::iterator> turn;     ///< ready, with waiting calls
  std::optional<Ticket> claim;                         ///< key in the claim queue
  TimePoint claim_since;

  [[nodiscard]] bool loading() const noexcept { return phase < Phase::ready; }
  [[nodiscard]] bool in_use() const noexcept { return leases > 0 || pins > 0; }
  [[nodiscard]] std::size_t own_bytes() const noexcept { return private_bytes + code_bytes; }
};

}  // namespace mme::cache
