// Who pays for a block of memory: one account per call and per load, and the calling thread's current one.
// Knows no libtorch and allocates nothing itself; c10_allocator and counting_new charge the blocks that they hand out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "loader/memory_grant.hpp"

namespace mme::loader {

enum class BlockKind : std::uint8_t { tensor, object };

/// What a model's earlier calls left in it and has been freed since. A call that leaves bytes behind first uses this
/// up, so that a model which replaces its state in every call is charged once and not again and again.
class KeptBytes {
 public:
  void freed(std::size_t bytes) noexcept { credit_.fetch_add(static_cast<std::int64_t>(bytes)); }
  void owed(std::size_t bytes) noexcept { credit_.fetch_sub(static_cast<std::int64_t>(bytes)); }
  /// Bytes to charge to the model for `residual` bytes that a call leaves in it.
  [[nodiscard]] std::size_t settle(std::size_t residual) noexcept;

 private:
  std::atomic<std::int64_t> credit_{0};
};

/// Bytes by meter. Both include the header before each block.
struct AccountBytes {
  std::size_t tensors = 0;
  std::size_t objects = 0;
};

/// States: open -> closed. An open account asks its grant for room as blocks are charged, in steps, and gives nothing
/// back before it is closed. A closed one only counts down; what it still counts belongs to the model.
/// Bytes, the closed mark and the holds are one atomic: whoever brings bytes and holds to zero deletes the account, so
/// a block may be freed on any thread and long after the call. All members may be called from any thread.
class MemoryAccount {
 public:
  struct Release {
    void operator()(MemoryAccount* account) const noexcept { account->drop(); }
  };
  using Handle = std::unique_ptr<MemoryAccount, Release>;

  static constexpr std::size_t default_step = std::size_t{256} << 10;

  /// `grant` may be null: then everything is granted. `granted` bytes of it are ours from the start.
  static Handle open(std::shared_ptr<MemoryGrant> grant, std::size_t granted, std::size_t step = default_step);
  /// For blocks that leave the call: what is freed goes back to the grant at once (in portions), and the grant lives
  /// as long as they do. Never closed.
  static Handle open_for_outputs(std::shared_ptr<MemoryGrant> grant);

  /// False: no room; nothing is charged and refused() is true from now on. Small objects are let through up to
  /// `overdraft` bytes, because they are also made where nothing may be thrown; refused() is true all the same.
  [[nodiscard]] bool charge(std::size_t bytes, BlockKind kind) noexcept;
  /// So much more of the grant is ours: it was given by other ways than grow().
  void add_granted(std::size_t bytes) noexcept { granted_.fetch_add(bytes); }
  void release(std::size_t bytes, BlockKind kind) noexcept;
  /// Moves one charged block to another account, with the room that it takes.
  void hand_over(std::size_t bytes, BlockKind kind, MemoryAccount& to) noexcept;

  /// Ends a call: what is still counted is kept by the model, or as much as is said by the code that it shares; the
  /// rest of the grant is given back.
  enum class CodeGets { nothing, objects, all };
  void close_call(std::shared_ptr<KeptBytes> kept, CodeGets code_gets = CodeGets::nothing) noexcept;
  /// Ends a load: the grant is let go as it is, for the cache charges what is returned here.
  AccountBytes close_load(std::shared_ptr<KeptBytes> kept) noexcept;

  void hold() noexcept;
  void drop() noexcept;

  [[nodiscard]] AccountBytes bytes() const noexcept;
  /// Most bytes counted at once.
  [[nodiscard]] std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
  /// The system itself had no memory.
  void mark_refused() noexcept { refused_.store(true, std::memory_order_relaxed); }

  /// Accounts in existence; for tests.
  [[nodiscard]] static std::size_t live() noexcept;

 private:
  MemoryAccount(std::shared_ptr<MemoryGrant> grant, std::size_t granted, std::size_t step, bool outputs);
  ~MemoryAccount();

  [[nodiscard]] bool grow_to(std::size_t total, std::size_t block, BlockKind kind) noexcept;
  [[nodiscard]] bool ask(std::size_t bytes) noexcept;
  void give_back(std::size_t bytes) noexcept;
  void subtract(std::size_t bytes) noexcept;
  AccountBytes close(std::shared_ptr<KeptBytes> kept) noexcept;

  std::atomic<std::uint64_t> state_;  // bytes | closed | holds
  std::atomic<std::size_t> objects_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> granted_;
  std::atomic<std::size_t> returned_{0};  // outputs only: freed and not yet given back
  std::atomic<bool> refused_{false};
  const std::size_t step_;
  const bool outputs_;
  std::mutex mutex_;  // held while the grant is asked, so that two threads do not both ask
  std::shared_ptr<MemoryGrant> grant_;
  std::shared_ptr<KeptBytes> kept_;  // set once, before the closed mark
};

/// The account that blocks made on this thread are charged to; null: nobody's.
[[nodiscard]] MemoryAccount* current_account() noexcept;

/// Makes an account the thread's own until the scope ends. Null suspends: what is made meanwhile is nobody's.
class AccountScope {
 public:
  explicit AccountScope(MemoryAccount* account) noexcept;
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  MemoryAccount* before_;
};

/// Asked on threads that have no account of their own, e.g. those that run a forked task of a call.
using AccountFallback = MemoryAccount* (*)() noexcept;
void set_account_fallback(AccountFallback fallback) noexcept;

/// Whether this program replaces operator new (counting_new is linked in), so that objects are metered.
[[nodiscard]] bool objects_are_metered() noexcept;

}  // namespace mme::loader
