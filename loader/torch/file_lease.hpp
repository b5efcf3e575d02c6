// Read leases: the kernel holds back whoever wants to write to a file that is mapped, until the map no longer needs it.
// Knows nothing of what is mapped. Linux only; local file systems only.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

namespace mme::loader {

/// While one is held, opening the file for writing and truncating it wait (at most the system's lease-break-time, 45
/// s), and `on_break` is called first. Renaming over the file and deleting it do not wait, and need not.
class FileLease {
 public:
  /// `descriptor` is open for reading and stays open until the lease ends. `on_break` runs once at most, on the watcher
  /// thread, which waits for it and then lets the writer go on; it must not end this lease.
  /// Null when there is no lease to be had: a writer has the file open, it belongs to somebody else, the file system
  /// has none, or the process holds as many as it may (half of the descriptors that it may open).
  static std::unique_ptr<FileLease> take(int descriptor, std::function<void()> on_break);
  /// Waits for an on_break that is running.
  ~FileLease();
  FileLease(const FileLease&) = delete;
  FileLease& operator=(const FileLease&) = delete;

  /// A writer came: the file is no longer held.
  [[nodiscard]] bool broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  /// Leases in existence; for tests.
  [[nodiscard]] static std::size_t held();

 private:
  friend class LeaseWatcher;
  FileLease(int descriptor, std::function<void()> on_break) noexcept;

  const int descriptor_;
  const std::function<void()> on_break_;
  std::atomic<bool> broken_{false};
};

}  // namespace mme::loader
