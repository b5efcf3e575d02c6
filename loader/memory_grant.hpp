// How code that allocates asks for room without knowing the cache. Interface here, implemented in cache/.
#pragma once

#include <cstddef>

namespace mme::loader {

/// Room in the budget that one load or one call holds. All members may be called from any thread, also from inside an
/// allocator: they take one short lock of the cache and never allocate through the metered path.
class MemoryGrant {
 public:
  virtual ~MemoryGrant() = default;

  /// Asks for `bytes` more. False: there is no room and the caller must do without (an allocator throws).
  /// Never waits for other calls or loads to end.
  [[nodiscard]] virtual bool grow(std::size_t bytes) noexcept = 0;

  /// Gives `bytes` back. Never more than is held.
  virtual void shrink(std::size_t bytes) noexcept = 0;

  /// Moves `bytes` from this call to the model that it runs: what a call leaves inside its model (execution plans,
  /// caches, appended state). They are given back with the model, never through shrink().
  virtual void keep(std::size_t bytes) noexcept = 0;
};

}  // namespace mme::loader
