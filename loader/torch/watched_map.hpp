// The last nets under mapped weights: a page that the file no longer has becomes zeros instead of the end of the
// process, and a write to what calls may only read is let through and told. Decides nothing; who holds the map asks
// whether one of the two happened before it passes on what was computed with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mme::loader {

class MemoryAccount;

/// One map under watch. At a SIGBUS inside it, everything past the file's new end becomes zero pages at once and the
/// map is marked, before the thread that met it goes on. When it is sealed, the first write to it marks it too.
class WatchedMap {
 public:
  /// The range is a map of `descriptor` from byte `offset` on. The descriptor must stay open as long as this lives; the
  /// range must stay mapped as long. watched() is false when there are too many.
  WatchedMap(std::byte* begin, std::size_t size, int descriptor, std::uint64_t offset) noexcept;
  ~WatchedMap();
  WatchedMap(const WatchedMap&) = delete;
  WatchedMap& operator=(const WatchedMap&) = delete;

  [[nodiscard]] bool watched() const noexcept { return slot_ != nullptr; }
  /// Whether zeros were put in. Any thread.
  [[nodiscard]] bool lost() const noexcept;

  /// Takes the right to write away from the whole range, until somebody writes all the same. Once.
  void seal() noexcept;
  /// Sealed, and nobody has written.
  [[nodiscard]] bool sealed() const noexcept;
  /// Whether somebody wrote. Any thread.
  [[nodiscard]] bool written() const noexcept;
  /// The account that was current in the first thread that did; null when none was. For comparing only.
  [[nodiscard]] const MemoryAccount* writer() const noexcept;

  struct Slot;

 private:
  Slot* slot_;
};

}  // namespace mme::loader
