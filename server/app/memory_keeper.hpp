// Holds the books against the kernel: what the process has beyond what is charged goes back to the system or, when it
// does not, comes off the budget. The last line before a limit is reached that kills.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "cache/model_cache.hpp"
#include "server/inference/worker_pool.hpp"

namespace mme::server {

/// All in bytes.
struct MemoryFacts {
  std::size_t anon = 0;     ///< anonymous memory of the process now
  std::size_t base = 0;     ///< the same before there was any model
  std::size_t charged = 0;  ///< sum of all kinds, as far as it is anonymous
  std::size_t reserve = 0;  ///< kept for what no meter sees
  std::size_t budget = 0;   ///< as it is set
  std::size_t limit = 0;    ///< what the process must stay below to live; 0: not known
};

struct MemoryVerdict {
  std::size_t uncounted = 0;  ///< what the process holds beyond its base and the books
  std::size_t budget = 0;     ///< what may be charged now
  bool trim = false;          ///< much of the uncounted may be what the allocator keeps
};

/// Pure. The budget is lowered by what is uncounted beyond the reserve; at 95 % of the limit it is lowered below what
/// is charged, until the process is at 90 %.
[[nodiscard]] MemoryVerdict judge(const MemoryFacts& facts) noexcept;

/// How often freed memory is given back to the system: at once when much was freed, else at most every 100 ms, for
/// trimming costs milliseconds in which nobody can allocate. Thread-safe.
class TrimPolicy {
 public:
  static constexpr std::size_t kMuch = std::size_t{16} << 20;
  static constexpr std::chrono::milliseconds kPause{100};

  /// `freed` more bytes; whether to trim now. If so, everything freed so far counts as given back.
  [[nodiscard]] bool freed(std::size_t bytes, loader::TimePoint now);
  /// Whether something was freed that nobody has given back for kPause. If so, as above.
  [[nodiscard]] bool overdue(loader::TimePoint now);

 private:
  std::mutex mutex_;
  std::size_t pending_ = 0;
  loader::TimePoint last_{};
};

/// Watches one cache. step() on one thread at a time, after_destroy() on the reaper.
class MemoryKeeper {
 public:
  /// Bytes that are charged and are pages of model files, no anonymous memory. Any thread.
  using MappedBytes = std::function<std::size_t()>;

  /// `base`: anonymous bytes before there was any model.
  MemoryKeeper(cache::ModelCache& cache, WorkerPool& reaper, std::size_t base, MappedBytes mapped = {});

  [[nodiscard]] std::size_t base() const noexcept { return base_; }
  /// Call about every 100 ms.
  void step(std::size_t budget, std::size_t reserve, std::size_t limit);

 private:
  void apply(const MemoryVerdict& verdict, std::size_t budget);
  void trim_later();

  cache::ModelCache& cache_;
  WorkerPool& reaper_;
  const std::size_t base_;
  const MappedBytes mapped_;
  bool lowered_ = false;  ///< the cache has a smaller budget than the one that is set
  std::chrono::milliseconds pause_{100};
  loader::TimePoint next_trim_{};
  std::size_t uncounted_at_trim_ = 0;
  std::shared_ptr<std::atomic<bool>> trimming_ = std::make_shared<std::atomic<bool>>(false);  ///< outlives us
};

}  // namespace mme::server
