// The allocator of all tensors: each block is charged to the current MemoryAccount.
// Allocates with the system's aligned allocator; keeps no pool of its own.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "loader/torch/memory_account.hpp"

namespace mme::loader {

/// Makes ours the CPU allocator of the process. Before anything else of libtorch allocates; once.
void install_tensor_allocator();

/// Who pays for this block; null when it is nobody's or not from our allocator.
[[nodiscard]] MemoryAccount* account_of(const c10::DataPtr& data) noexcept;

/// Bytes that a block from our allocator really has; nullopt for any other.
[[nodiscard]] std::optional<std::size_t> block_size(const c10::DataPtr& data) noexcept;

/// Lets `to` pay for the block from now on. Only for blocks whose account_of() is not null.
void hand_over(const c10::DataPtr& data, MemoryAccount& to) noexcept;

/// The thread's current account, as AccountScope does it, and that of the tasks that are forked meanwhile.
class MeteredScope {
 public:
  explicit MeteredScope(MemoryAccount& account);
  ~MeteredScope();
  MeteredScope(const MeteredScope&) = delete;
  MeteredScope& operator=(const MeteredScope&) = delete;

  /// The account that came to this thread with a forked task; null when none did.
  [[nodiscard]] static MemoryAccount* carried() noexcept;

 private:
  struct Carrier;
  std::shared_ptr<Carrier> carrier_;
  c10::DebugInfoGuard forked_;
  AccountScope scope_;
};

}  // namespace mme::loader
