// What stands behind ModelCache: the mutex around the ledger, and the doing of what the ledger decided.
// Decides nothing. Handlers, observers, executors and models are never called under the mutex.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/grants.hpp"
#include "cache/ledger.hpp"
#include "cache/model_cache.hpp"

namespace mme::cache {

/// All members may be called from any thread. Lives as long as the cache, a lease, a grant or a task of its own does.
class Shell : public std::enable_shared_from_this<Shell> {
 public:
  Shell(CacheOptions options, const loader::ModelLoader& loader, Executor loads, Executor reaper, Observer& observer,
        std::function<TimePoint()> now);

  Ticket acquire(const ModelSpec& spec, const CallRequest& request, ModelCache::AcquireHandler handler);
  Ticket load(const ModelSpec& spec, Deadline deadline, ModelCache::DoneHandler handler);
  bool leave(Ticket ticket);
  void unload(const std::string& name, const std::optional<std::string>& version, Deadline deadline,
              ModelCache::DoneHandler handler);
  Result<void> set_budget(std::size_t bytes);
  Result<void> set_limits(const CacheLimits& limits, const std::set<std::string>& pinned);
  std::shared_ptr<loader::MemoryGrant> claim_body(std::size_t bytes);
  void tick();
  void stop();
  void close();
  [[nodiscard]] MemoryUse used() const;
  [[nodiscard]] CacheStatus status() const;
  [[nodiscard]] std::optional<Error> broken(const loader::ArtifactId& artifact) const;
  [[nodiscard]] LearnedTable learned() const;
  [[nodiscard]] std::uint64_t learned_changes() const;
  [[nodiscard]] double oldest_waiting_load_seconds() const;
  void check() const;
  bool with_model(const std::string& name, const std::optional<std::string>& version,
                  const std::function<void(const loader::Model&, const EntryStatus&)>& visit);

  // For grants and holds.
  bool grow(GrantAccount& account, std::size_t bytes) noexcept;
  void shrink(GrantAccount& account, std::size_t bytes) noexcept;
  void keep(GrantAccount& account, std::size_t bytes, bool in_code) noexcept;
  void close(GrantAccount& account) noexcept;
  bool grow_load(EntryId id, std::size_t bytes) noexcept;
  void shrink_load(EntryId id, std::size_t bytes) noexcept;
  bool make_private(EntryId id, const loader::Segment& segment) noexcept;
  void learn(const LeaseTerms& terms, std::size_t peak) noexcept;
  /// `last`: nobody else holds the grant, so it ends with the lease.
  void end_lease(const LeaseTerms& terms, GrantAccount& account, bool last) noexcept;

 private:
  /// A caller that waits; exactly one of the handlers is set.
  struct Pending {
    std::unique_ptr<CallHold> hold;
    ModelCache::AcquireHandler acquired;
    ModelCache::DoneHandler done;
  };
  struct Answered {
    Pending pending;
    std::optional<LeaseTerms> terms;
    std::optional<Error> error;
  };
  using Answers = std::vector<Answered>;

  /// Runs `decide(now, out)` under the mutex, then does what was decided.
  template <class Decide>
  void decide(Decide&& decide);
  Answers collect(const Decisions& decisions);
  void take(Ticket ticket, std::optional<LeaseTerms> terms, std::optional<Error> error, Answers& answers);
  void perform(Decisions&& decisions, Answers&& answers);
  void tell(const Event& event);
  static void answer(Answered&& answered);
  void estimate(EntryId id, const ModelSpec& spec);
  void read(const Decisions::Task& task);
  void destroy(EntryId id, std::unique_ptr<loader::Model> model);
  void after_destroy(std::size_t freed) const;
  template <class Try>
  bool grow_or_wait(bool of_load, std::size_t bytes, EntryId grows, Try attempt);

  const std::chrono::milliseconds growth_wait_;
  const std::function<void(std::size_t)> after_destroy_;
  const loader::ModelLoader& loader_;
  const Executor loads_;
  const Executor reaper_;
  Observer& observer_;
  const std::function<TimePoint()> now_;

  mutable std::mutex mutex_;
  std::condition_variable memory_back_;  ///< growth in mid-call waits here, for the reaper only
  Ledger ledger_;                        ///< guarded by mutex_, as everything below
  std::unordered_map<Ticket, Pending> pending_;
};

}  // namespace mme::cache
