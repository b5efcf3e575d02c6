// How code that allocates asks for room without knowing the cache. Interface here, implemented in cache/.
#pragma once

#include <cstddef>
#include <string>

namespace mme::loader {

/// A piece of model memory that several models may hold together: one run of weights, or one architecture's code.
struct Segment {
  std::string key;  ///< equal keys are equal bytes
  std::size_t bytes = 0;
  bool code = false;  ///< graphs, plans and their constants, rather than weights
};

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

  /// The same for what stays in code that models of one architecture hold together: the bytes are given back with the
  /// last of them.
  virtual void keep_in_code(std::size_t bytes) noexcept { keep(bytes); }

  /// Loads only: a segment that the estimate named turned out to be this model's alone. Its bytes become private ones
  /// of the load, which asks for room if others go on holding it. False: there is none, and nothing changed.
  [[nodiscard]] virtual bool make_private(const Segment& segment) noexcept { return grow(segment.bytes); }
};

}  // namespace mme::loader
