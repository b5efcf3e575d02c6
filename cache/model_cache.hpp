// The cache of models as the rest of the program sees it: who may run on which model, now.
// A thin shell: one short mutex around the Ledger, decisions under the lock, everything else after it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "cache/lease.hpp"
#include "cache/observer.hpp"
#include "cache/types.hpp"

namespace mme::cache {

class Shell;

/// All members may be called from any thread. Handlers are called exactly once, without the lock, on whichever thread
/// made the decision; they must only hand over to a pool.
class ModelCache {
 public:
  using AcquireHandler = std::function<void(Result<Lease>)>;
  using DoneHandler = std::function<void(Result<void>)>;

  /// `loads` runs blocking work of `loader`; `reaper` destroys models. Loader, executors, observer and clock must
  /// outlive the cache, its leases and the tasks that it gave out; grants may outlive it all.
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

  /// All of it or, with conflict as above, nothing. `pinned`: names of the models that are pinned from now on; a later
  /// acquire whose spec says otherwise wins.
  Result<void> set_limits(const CacheLimits& limits, const std::set<std::string>& pinned);

  /// Room for request bodies and replies, outside any model. Null when there is none.
  std::shared_ptr<loader::MemoryGrant> claim_body(std::size_t bytes);

  /// Moves time on: expired callers, overdue claims, idle unload, stuck calls. Call about every 20 ms.
  void tick();

  /// No new callers (shutting_down); waiting loads for nobody are dropped, reading ones told to stop. Running leases
  /// go on.
  void stop();

  /// stop(), and whoever still waits is told shutting_down; idle models go. The destructor does this too; whoever must
  /// end the loader's threads first calls it before.
  void close();

  /// For tests: throws std::logic_error when the books are wrong. Slow.
  void check() const;

  [[nodiscard]] MemoryUse used() const;
  /// Why the last try to load this very file failed, while that is remembered (R12).
  [[nodiscard]] std::optional<Error> broken(const loader::ArtifactId& artifact) const;
  /// Age of the oldest load that somebody waits for, or, when that is longer, for how long every loader thread has
  /// been busy with the same loads. 0 when loads move. Cheap.
  [[nodiscard]] double oldest_waiting_load_seconds() const;
  [[nodiscard]] CacheStatus status() const;
  /// Sizes and peaks by content and the last sizes of each name, for CacheOptions::learned of the next process. Copied
  /// in small parts, so that calls get through in between; ask only when learned_changes() has moved.
  [[nodiscard]] LearnedTable learned() const;
  [[nodiscard]] std::uint64_t learned_changes() const;
  /// Runs `visit` on the model of that name while it cannot be destroyed. False when it is not ready.
  bool with_model(const std::string& name, const std::optional<std::string>& version,
                  const std::function<void(const loader::Model&, const EntryStatus&)>& visit) const;

 private:
  std::shared_ptr<Shell> shell_;  ///< grants that outlive the cache share it
};

}  // namespace mme::cache
