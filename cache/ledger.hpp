// The books of the cache: who is in memory, what is charged, who waits, who goes. All rules are decided here.
// Pure bookkeeping: no threads, no lock, no clock of its own; calls no one, runs nothing, destroys no model.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/broken_memory.hpp"
#include "cache/charges.hpp"
#include "cache/decisions.hpp"
#include "cache/directory.hpp"
#include "cache/entry.hpp"
#include "cache/learned_facts.hpp"
#include "cache/segments.hpp"
#include "cache/turns.hpp"
#include "cache/types.hpp"

namespace mme::cache {

/// Not thread-safe: the shell holds its mutex around every member. `now` never goes back. Whatever must be done for a
/// decision (handlers, tasks, destructions, events) is appended to `out`.
class Ledger {
 public:
  explicit Ledger(CacheOptions options);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Exactly one of: terms (runs now), error (refused now), ticket (answered later through Decisions).
  struct Answer {
    std::optional<LeaseTerms> terms;
    std::optional<Error> error;
    Ticket ticket = 0;
    CacheResult found = CacheResult::miss;
  };

  // --- callers (ledger.cpp)
  /// `account` must stay where it is until the lease has ended and close() was called.
  Answer acquire(const ModelSpec& spec, const CallRequest& request, GrantAccount& account, TimePoint now,
                 Decisions& out);
  Answer load(const ModelSpec& spec, Deadline deadline, TimePoint now, Decisions& out);
  Answer unload(const std::string& name, const std::optional<std::string>& version, Deadline deadline, TimePoint now,
                Decisions& out);
  bool leave(Ticket ticket, TimePoint now, Decisions& out);
  void tick(TimePoint now, Decisions& out);
  void stop(TimePoint now, Decisions& out);
  /// Ends everything that can be ended: waiting callers are refused, idle models go. For the end of the cache.
  void close(TimePoint now, Decisions& out);
  Result<void> set_budget(std::size_t bytes, TimePoint now, Decisions& out);
  Result<void> set_limits(const CacheLimits& limits, const std::set<std::string>& pinned, TimePoint now,
                          Decisions& out);

  // --- reports of work that was asked for (ledger_loads.cpp)
  void estimated(EntryId id, Result<loader::Estimate> estimate, TimePoint now, Decisions& out);
  struct Loaded {
    std::unique_ptr<loader::Model> model;
    loader::Footprint footprint;
    bool stateless = true;
    std::size_t peak_bytes = 0;  ///< most that the load held of its grant at once; 0: not known
  };
  void loaded(EntryId id, Result<Loaded> result, TimePoint now, Decisions& out);
  void memory_back(EntryId id, TimePoint now, Decisions& out);

  // --- leases and pins (ledger_calls.cpp)
  void end_lease(const LeaseTerms& terms, GrantAccount& account, bool usable, TimePoint now, Decisions& out);
  void learn(const LeaseTerms& terms, std::size_t peak);
  Entry* pin(const std::string& name, const std::optional<std::string>& version);
  void unpin(Entry& entry, TimePoint now, Decisions& out);

  // --- grants (ledger_grants.cpp); none of grow, shrink, keep allocates
  [[nodiscard]] bool grow(GrantAccount& account, std::size_t bytes) noexcept;
  void shrink(GrantAccount& account, std::size_t bytes) noexcept;
  void keep(GrantAccount& account, std::size_t bytes, bool in_code) noexcept;
  bool open_body(GrantAccount& account, std::size_t bytes, TimePoint now, Decisions& out);
  void close(GrantAccount& account, TimePoint now, Decisions& out);
  [[nodiscard]] std::size_t load_holds(EntryId id) const noexcept;
  [[nodiscard]] bool grow_load(EntryId id, std::size_t bytes) noexcept;
  void shrink_load(EntryId id, std::size_t bytes) noexcept;
  void refuse_load(EntryId id, std::size_t bytes) noexcept;
  [[nodiscard]] std::optional<std::size_t> make_private(EntryId id, const loader::Segment& segment) noexcept;
  void leave_segment(EntryId id, const loader::Segment& segment) noexcept;
  /// Evicts idle models until `bytes` of growth will fit once their memory is back; promises that room to the caller,
  /// who waits and then calls end_growth(). `cause`: the model that grows, 0 for none. False: not enough can go;
  /// nothing was done.
  bool begin_growth(bool of_load, std::size_t bytes, EntryId cause, TimePoint now, Decisions& out);
  void end_growth(std::size_t bytes) noexcept {
    promised_ -= bytes;
    moved_since_pump_ = true;
  }
  /// All promised room is there.
  [[nodiscard]] bool fits_growth(bool of_load) const noexcept;

  // --- views (ledger_view.cpp)
  [[nodiscard]] const MemoryUse& used() const noexcept { return charges_.use(); }
  [[nodiscard]] CacheStatus status(TimePoint now) const;
  [[nodiscard]] MemoryUse used_as_seen() const;
  /// See ModelCache.
  [[nodiscard]] double oldest_waiting_load_seconds(TimePoint now) const;
  [[nodiscard]] std::chrono::nanoseconds loaders_stand_still(TimePoint now) const;
  [[nodiscard]] std::optional<Error> broken(const loader::ArtifactId& artifact, TimePoint now) const;
  [[nodiscard]] EntryStatus describe(const Entry& entry, TimePoint now) const;
  [[nodiscard]] std::size_t budget() const noexcept { return options_.budget; }
  [[nodiscard]] const LearnedFacts& learned() const noexcept { return facts_; }
  [[nodiscard]] std::size_t floor() const noexcept;
  /// Throws std::logic_error naming the invariant that does not hold.
  void check() const;

 private:
  using Signed = std::int64_t;
  enum class Obstacle { none, busy, room };

  // names and entries
  Entry* serving(NameSlot& slot, const loader::ArtifactId& artifact, TimePoint now, bool insist);
  Entry& begin(const ModelSpec& spec, TimePoint now, Decisions& out);
  Entry& make(const ModelSpec& spec, TimePoint now);
  void detach(Entry& entry) noexcept;
  void doom(Entry& entry, EvictionReason reason, TimePoint now, Decisions& out);
  void erase(Entry& entry, Decisions& out);
  void stop_if_unwanted(Entry& entry, Decisions& out);
  void gone(EntryId id, Decisions& out);
  void move_to(Entry& entry, Phase phase, TimePoint now) noexcept;
  void set_pinned(Entry& entry, bool pinned);
  Answer refuse(const ModelSpec& spec, ErrorCode code, std::string message, Decisions& out);

  // waiters
  Ticket enqueue(Entry& entry, Waiter waiter);
  void answer_all(Entry& entry, const Error& error, Decisions& out);
  void hand_over(Entry& from, Entry& to, TimePoint now);
  void after_leaving(Entry& entry, TimePoint now, Decisions& out);
  void expire(TimePoint now, Decisions& out);
  void expire_waiters(Entry& entry, TimePoint now, Decisions& out);
  void expire_claims(TimePoint now, Decisions& out);
  void expire_idle(TimePoint now, Decisions& out);
  void quarantine_calls(TimePoint now, Decisions& out);
  void quarantine_loads(TimePoint now, Decisions& out);
  [[nodiscard]] std::size_t waiting_calls(const Entry& entry) const noexcept;

  // loads
  void fail_load(Entry& entry, const Error& error, TimePoint now, Decisions& out);
  void load_failed(Entry& entry, const Error& error, TimePoint now, Decisions& out);
  void undo_load(Entry& entry, Loaded loaded, TimePoint now, Decisions& out);
  [[nodiscard]] Error no_room(const Entry& entry) const;
  Entry& restart(Entry& entry, loader::Estimate estimate, TimePoint now, Decisions& out);
  void become_ready(Entry& entry, Loaded loaded, TimePoint now, Decisions& out);
  bool settle(Entry& entry, const loader::Footprint& footprint);
  void join_segments(Entry& entry);
  void drop_segments(Entry& entry, Holding from) noexcept;
  static void count_as_private(Entry& entry, const loader::Segment& segment) noexcept;

  // what is learned (ledger_learned.cpp)
  void recall(Entry& entry);
  bool claim_as_told(Entry& entry) noexcept;
  std::vector<Event> take_in_sizes(Entry& entry, const Loaded& loaded);

  // room
  void pump(TimePoint now, Decisions& out);
  void relieve(TimePoint now, Decisions& out);
  bool admit(TimePoint now, Decisions& out);
  void admit_load(Entry& entry, TimePoint now, Decisions& out);
  bool refuse_hopeless(Entry& entry, TimePoint now, Decisions& out);
  void refuse_first(Entry& entry, TimePoint now, Decisions& out);
  bool make_room(Entry& head, TimePoint now, Decisions& out);
  bool make_room_offline(Entry& head, std::size_t need, TimePoint now, Decisions& out);
  bool condemn(Entry& head, std::size_t need, TimePoint now, Decisions& out);
  void pardon() noexcept;
  void claim(Entry& entry, TimePoint now);
  void drop_claim(Entry& entry) noexcept;
  [[nodiscard]] Signed free_for_calls() const noexcept;
  [[nodiscard]] Signed free_for_loads() const noexcept;
  [[nodiscard]] Signed missing(const Entry& entry) const;
  [[nodiscard]] std::size_t unheld_bytes(const Entry& entry) const;
  [[nodiscard]] bool waits_for_drain(const Entry& entry) const;
  [[nodiscard]] std::size_t room_for(const Entry* entry) const;
  [[nodiscard]] std::size_t bytes_beside_pinned(const Entry& entry) const;
  [[nodiscard]] std::size_t pinned_bytes(const Entry* without = nullptr) const;
  [[nodiscard]] std::size_t staying_bytes(const Entry* also, const Entry* without) const;
  [[nodiscard]] Entry* replaced_by(const Entry& entry) const;
  [[nodiscard]] bool never_granted(const Entry& entry) const;
  [[nodiscard]] bool outwaited(const Entry& entry, const Waiter& waiter) const noexcept;
  bool leave_joined(EntryId id);
  [[nodiscard]] bool overdue(const Entry& head, TimePoint now) const noexcept;
  [[nodiscard]] TimePoint short_since(const Entry& entry) const noexcept;
  [[nodiscard]] bool may_go(const Entry& entry, const Entry* beneficiary) const;
  [[nodiscard]] std::vector<Entry*> idle_entries(const Entry* beneficiary) const;
  [[nodiscard]] std::optional<std::vector<Entry*>> victims(const std::vector<Entry*>& candidates,
                                                           std::size_t need) const;
  void evict(Entry& entry, EvictionReason reason, const std::string& cause, TimePoint now, Decisions& out);
  void maybe_retire(Entry& entry, TimePoint now, Decisions& out);

  // calls
  bool dispatch(TimePoint now, Decisions& out);
  [[nodiscard]] Obstacle obstacle(const Entry& entry, const Waiter& waiter, TimePoint now) const;
  [[nodiscard]] std::optional<std::size_t> peak_of(const Entry& entry, const CallRequest& request) const;
  [[nodiscard]] std::size_t grant_of(const Entry& entry, const CallRequest& request) const;
  LeaseTerms start(Entry& entry, const Waiter& waiter, TimePoint now);
  void take_turn(Entry& entry);
  void leave_turn(Entry& entry) noexcept;
  void touch(Entry& entry, TimePoint now) noexcept;
  void set_floor_share(Entry& entry, std::size_t bytes);
  void open(GrantAccount& account, Entry& entry, std::size_t bytes);

  // check() in parts
  void check_sums() const;
  void check_entry(const Entry& entry) const;
  void check_queues() const;
  void check_nobody_waits_in_vain() const;

  CacheOptions options_;
  Charges charges_;
  SegmentTable segments_{charges_};
  Directory directory_;
  BrokenMemory broken_;
  PeakMemory peaks_;
  LearnedFacts facts_;
  std::unordered_map<EntryId, std::unique_ptr<Entry>> entries_;
  std::unordered_map<Ticket, Entry*> waiting_;  ///< where a waiting caller waits
  std::map<std::uint64_t, Entry*> claims_;      ///< by the ticket of the caller that waits longest
  std::set<const Entry*> pinned_;               ///< ready entries whose settings say so
  std::list<Entry*> recency_;                   ///< ready entries, least recently used first
  std::list<Entry*> turns_;                     ///< ready entries with waiting calls, longest without a turn first
  RecentModels recent_;
  std::multiset<std::size_t> floor_shares_;
  boost::intrusive::list<GrantAccount> accounts_;

  struct Unload {
    std::set<EntryId> waiting_for;
    Deadline deadline;
    std::string name;
  };
  std::map<Ticket, Unload> unloads_;

  std::uint64_t next_id_ = 1;
  std::size_t running_ = 0;
  std::set<Entry*> readers_;  ///< entries that read; stuck ones too
  std::size_t reading_ = 0;   ///< loader threads taken; stuck ones not
  std::size_t written_off_ = 0;
  bool alone_ = false;              ///< a call that must be alone is running
  const Entry* gate_ = nullptr;     ///< a call that must be alone waits too long: nobody else starts
  const Entry* overdue_ = nullptr;  ///< head of the claim queue, when overdue (R6)
  EntryId condemned_for_ = 0;
  Ticket condemned_after_ = 0;
  EntryId head_ = 0;                      ///< the claim that room is made for
  std::optional<TimePoint> short_since_;  ///< since when no claim was admitted for want of room
  std::size_t promised_ = 0;              ///< room that growth in mid-call waits for
  std::size_t reserved_ = 0;              ///< room of calls that are ahead of the loads in the queue
  std::size_t ceiling_ = 0;               ///< used never exceeds it: the budget, or what was used when it shrank
  bool relieving_ = false;                ///< above a budget that was lowered
  bool stopping_ = false;
  TimePoint pumped_at_{};          ///< of the last look at who waits
  bool moved_since_pump_ = false;  ///< grants moved bytes since: somebody may have become able to run, or unable
};

}  // namespace mme::cache
