// What callers of the cache say and see: options, requests, states, bytes by kind.
// Plain values; no behaviour, no locks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/learned_facts.hpp"
#include "loader/error.hpp"
#include "loader/model.hpp"

namespace mme::cache {

using loader::Deadline;
using loader::Error;
using loader::ErrorCode;
using loader::ModelSpec;
using loader::Result;
using loader::TimePoint;

struct Candidate;

/// Runs a task on some pool, later and elsewhere; never inline.
using Executor = std::function<void(std::function<void()>)>;

struct CacheOptions {
  std::size_t budget = 0;            ///< bytes; everything that is charged stays within it
  std::size_t activation_floor = 0;  ///< bytes that weights never fill (R10)
  std::size_t compute_slots = 1;     ///< calls that run at once; one per compute thread
  std::size_t loads_at_once = 1;     ///< loads that read at once; one per loader thread
  std::size_t queue_size = 128;      ///< calls waiting per model before queue_full
  std::chrono::milliseconds room_wait{30'000};
  std::chrono::milliseconds claim_after{1'000};
  std::chrono::milliseconds load_timeout{300'000};
  std::optional<std::chrono::milliseconds> idle_unload;
  bool evicts = true;  ///< false: platform mode, only DELETE makes room (R16)
  /// How long growth in mid-call waits for the reaper to give back what it was promised.
  std::chrono::milliseconds growth_wait{1'000};
  /// Runs on the reaper after each model is destroyed and before its bytes count as free; also after a failed load,
  /// on its loader thread. Gives freed pages back to the system. `freed`: bytes that went, SIZE_MAX when not known.
  std::function<void(std::size_t freed)> after_destroy;
  /// What an earlier process learned; see ModelCache::learned().
  LearnedTable learned = {};
  /// For tests: told each choice of victims, under the cache's mutex. See choose_victims().
  std::function<void(std::span<const Candidate> offered, std::size_t need,
                     const std::optional<std::vector<std::size_t>>& chosen)>
      victims_chosen;
};

/// The options that may change while the cache runs.
struct CacheLimits {
  std::size_t budget = 0;
  std::size_t activation_floor = 0;
  std::size_t queue_size = 128;
  std::chrono::milliseconds room_wait{30'000};
  std::chrono::milliseconds claim_after{1'000};
  std::chrono::milliseconds load_timeout{300'000};
  std::optional<std::chrono::milliseconds> idle_unload;
};

/// What one call asks for.
struct CallRequest {
  Deadline deadline = Deadline::max();
  std::size_t input_bytes = 0;  ///< peaks are learned per model and power of two of this
  std::size_t least_bytes = 0;  ///< known need: an earlier try was refused at this
  bool alone = false;           ///< run while no other call runs (R10's second try)
};

/// Names a waiting acquire or load; 0 names none.
using Ticket = std::uint64_t;

/// evicting: out of look-up; its last calls still run, or its memory is on its way back.
enum class ModelState { loading, ready, evicting };

/// One model in memory, or on its way in or out; for /status, lists and metrics.
struct EntryStatus {
  ModelSpec spec;
  ModelState state = ModelState::loading;
  std::string stage;  ///< loading: "estimating", "queued", "reading"; else empty
  std::size_t weight_bytes = 0;
  std::size_t code_bytes = 0;
  std::size_t shared_bytes = 0;  ///< part of weight_bytes and code_bytes that other entries hold too
  std::size_t saved_bytes = 0;   ///< part of shared_bytes that the others pay for, when each pays the same
  std::size_t mapped_bytes = 0;  ///< part of weight_bytes that is pages of the artifact
  /// How the weights came in, and why not mapped; nullopt while loading.
  std::optional<loader::LoadWay> way;
  std::string way_reason;
  std::size_t leases = 0;
  std::size_t waiting = 0;
  bool stateless = true;
  bool pinned = false;
  bool quarantined = false;                  ///< a call or load of it is stuck
  double idle_seconds = 0;                   ///< since the last lease ended
  std::optional<std::size_t> eviction_rank;  ///< 0 goes next; nullopt: cannot go now
  const loader::Model* model = nullptr;      ///< do not touch; use with_model()
};

/// Bytes by kind; disjoint, their sum is what is held against the budget.
struct MemoryUse {
  std::size_t weights = 0;
  std::size_t code = 0;
  std::size_t loading = 0;
  std::size_t draining = 0;
  std::size_t activations = 0;
  std::size_t bodies = 0;

  [[nodiscard]] std::size_t total() const noexcept {
    return weights + code + loading + draining + activations + bodies;
  }
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

struct CacheStatus {
  std::size_t budget = 0;
  std::size_t activation_floor = 0;  ///< as it is now, with what was learned
  MemoryUse used;                    ///< models that are unloaded and still run are draining
  std::size_t pinned_bytes = 0;
  std::size_t shared_saved_bytes = 0;
  std::vector<EntryStatus> entries;
  double oldest_waiting_load_seconds = 0;
  std::size_t claims_waiting = 0;
  std::size_t running = 0;      ///< leases that hold a compute slot
  std::size_t stuck_calls = 0;  ///< calls written off that have not ended yet (R15)
  std::size_t stuck_loads = 0;
};

}  // namespace mme::cache
