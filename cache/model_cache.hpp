// The cache of models as the rest of the program sees it: who may run on which model, now.
// A thin shell: one short mutex around the Ledger, decisions under the lock, everything else after it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/lease.hpp"
#include "cache/observer.hpp"
#include "loader/error.hpp"
#include "loader/model.hpp"

namespace mme::cache {

using loader::Deadline;
using loader::Error;
using loader::ErrorCode;
using loader::ModelSpec;
using loader::Result;
using loader::TimePoint;

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

enum class ModelState { loading, ready, evicting };

/// One model in memory, or on its way in or out; for /status, lists and metrics.
struct EntryStatus {
  ModelSpec spec;
  ModelState state = ModelState::loading;
  std::string stage;  ///< loading: "estimating", "queued", "reading"; else empty
  std::size_t weight_bytes = 0;
  std::size_t code_bytes = 0;
  std::size_t shared_bytes = 0;  ///< part of weight_bytes that other entries hold too
  std::size_t leases = 0;
  std::size_t waiting = 0;
  bool stateless = true;
  bool pinned = false;
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
};

struct CacheStatus {
  std::size_t budget = 0;
  MemoryUse used;
  std::size_t pinned_bytes = 0;
  std::size_t shared_saved_bytes = 0;
  std::vector<EntryStatus> entries;
  double oldest_waiting_load_seconds = 0;
  std::size_t claims_waiting = 0;
};

/// All members may be called from any thread. Handlers are called exactly once, without the lock, on whichever thread
/// made the decision; they must only hand over to a pool.
class ModelCache {
 public:
  using AcquireHandler = std::function<void(Result<Lease>)>;
  using DoneHandler = std::function<void(Result<void>)>;

  /// `loads` runs blocking work of `loader`; `reaper` destroys models. Both and the observer must outlive the cache.
  ModelCache(CacheOptions options, const loader::ModelLoader& loader, Executor loads, Executor reaper,
             Observer& observer, std::function<TimePoint()> now = &loader::Clock::now);
  ~ModelCache();
  ModelCache(const ModelCache&) = delete;
  ModelCache& operator=(const ModelCache&) = delete;

  /// Asks for the right to run on a model; loads it first when it is not in memory (R1). The lease comes with its
  /// compute slot and its activation grant, all or nothing (R4). In platform mode a model that nobody loaded is
  /// model_unknown. Returns a ticket for leave(), or 0 when the handler has already been called.
  Ticket acquire(const ModelSpec& spec, const CallRequest& request, AcquireHandler handler);

  /// Brings a model into memory and holds nothing. already_loaded when it is there; one that finds a load under way
  /// joins it and then gets already_loaded, or that load's error.
  Ticket load(const ModelSpec& spec, Deadline deadline, DoneHandler handler);

  /// Takes a waiting caller out; its handler is never called. The load goes on (R11).
  /// False: too late, the handler has run or will.
  bool leave(Ticket ticket);

  /// Drops the model of that name from memory; done when its memory is back (R8, R13).
  /// model_unknown when it is not in memory.
  void unload(const std::string& name, const std::optional<std::string>& version, Deadline deadline,
              DoneHandler handler);

  /// R14. conflict when pinned models and the floor would not fit.
  Result<void> set_budget(std::size_t bytes);

  /// Room for request bodies and replies, outside any model. Null when there is none.
  std::shared_ptr<loader::MemoryGrant> claim_body(std::size_t bytes);

  /// Moves time on: expired callers, overdue claims, idle unload. Call about every 20 ms.
  void tick();

  /// No new callers (shutting_down); waiting loads for nobody are dropped. Running leases go on.
  void stop();

  [[nodiscard]] MemoryUse used() const;
  /// Why the last try to load this very file failed, while that is remembered (R12).
  [[nodiscard]] std::optional<Error> broken(const loader::ArtifactId& artifact) const;
  /// Age of the oldest load that still waits for its estimate, its room or its bytes; 0 when none does. Cheap.
  [[nodiscard]] double oldest_waiting_load_seconds() const;
  [[nodiscard]] CacheStatus status() const;
  /// Runs `visit` on the model of that name while it cannot be destroyed. False when it is not ready.
  bool with_model(const std::string& name, const std::optional<std::string>& version,
                  const std::function<void(const loader::Model&, const EntryStatus&)>& visit) const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace mme::cache
