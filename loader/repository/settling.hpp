// Tells files that somebody is still writing from files that are done.
// A guess from sizes and times, not a lock: a writer that pauses longer than kYoung looks done.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "loader/repository/disk.hpp"

namespace mme::loader {

/// Thread-safe. Remembers only files written to within the last moments, so its size is bounded by what is being
/// written at once.
class SettlingWatch {
 public:
  /// A file not written to for this long is done.
  static constexpr std::chrono::milliseconds kYoung{500};

  using WallClock = std::chrono::system_clock;  // file times are wall times

  explicit SettlingWatch(std::function<WallClock::time_point()> now = &WallClock::now) : now_(std::move(now)) {}

  /// One look at a file. True when it was written to within kYoung and either has no end record of a zip yet, or has
  /// changed in place since an earlier look. A file put in place by rename is another file and settled at once.
  [[nodiscard]] bool is_settling(const disk::File& file);

 private:
  struct Look {
    std::uint64_t inode;
    std::int64_t birth_ns;
    std::uint64_t size;
    std::int64_t mtime_ns;
    bool changed;
  };

  [[nodiscard]] bool is_young(std::int64_t mtime_ns) const;
  bool changed_since_last_look(const disk::File& file);
  void forget_old_ones();

  std::function<WallClock::time_point()> now_;
  std::mutex mutex_;
  std::unordered_map<std::string, Look> looks_;  ///< by canonical path
};

}  // namespace mme::loader
