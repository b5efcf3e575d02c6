// What the cache learned, kept on disk over restarts: one file, read once at start, written now and then.
// What stands in it is cache/learned_text's business; here are the file, its folder and its times.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cache/model_cache.hpp"
#include "server/inference/worker_pool.hpp"

namespace mme::server {

/// One file in one folder. Never an error: what cannot be read is as nothing, with a line in the log, and where nothing
/// can be written nothing is kept. Several processes may use one folder: each file is whole, the last one stays.
/// Not thread-safe.
class LearnedFile {
 public:
  /// nullopt: nothing is read or kept. The folder is made when there is none, but not the one above it.
  explicit LearnedFile(std::optional<std::filesystem::path> folder);

  /// False when it is off, or when the folder proved not to be writable, which the log says.
  [[nodiscard]] bool on() const noexcept { return folder_.has_value(); }
  /// Empty when there is no file, or one that is not whole and right.
  [[nodiscard]] cache::LearnedTable read() const;
  /// By a file beside and a rename. False when that failed. Not flushed to the disk: what a power cut takes is learned
  /// again.
  [[nodiscard]] bool write(const cache::LearnedTable& table) const;

 private:
  [[nodiscard]] std::filesystem::path path() const { return *folder_ / "learned"; }
  void remove_strays() const;

  std::optional<std::filesystem::path> folder_;
};

/// Writes down what the cache learned: when there is news, but at most each `kPause`, and at the end. On a thread of
/// its own, so that a slow disk keeps nobody.
class LearnedKeeper {
 public:
  static constexpr std::chrono::seconds kPause{5};
  /// After a write that failed.
  static constexpr std::chrono::seconds kLongPause{60};

  /// Both must outlive the keeper.
  LearnedKeeper(const cache::ModelCache& cache, const LearnedFile& file);

  /// Call now and then, on one thread at a time. Never waits.
  void step(loader::TimePoint now);
  /// The last write; nothing is written after it. False when it takes longer than that: its thread is still at it, and
  /// the destructor would wait.
  bool finish(std::chrono::milliseconds patience);

 private:
  void write();

  const cache::ModelCache& cache_;
  const LearnedFile& file_;
  std::atomic<bool> writing_{false};
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> written_{0};  ///< the cache's changes that the file says
  loader::TimePoint last_{};
  std::optional<WorkerPool> writer_;  ///< last: ends before what its tasks use
};

}  // namespace mme::server
