// The weights of one model file, mapped instead of read.
// No libtorch, and no accounts: who holds which part, and who pays for it, is the business of weight_run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "loader/torch/artifact_file.hpp"
#include "loader/torch/file_lease.hpp"
#include "loader/torch/page_ranges.hpp"
#include "loader/torch/watched_map.hpp"

namespace mme::loader {

/// Which files may be mapped.
enum class MapPolicy {
  leased,   ///< those that nobody can write to without our being told first
  trusted,  ///< all: whoever owns them promises to replace and never to rewrite them
  off,      ///< none
};

/// One private, writable map: what is written to it is seen by this process alone, and never by the file.
/// Its parts are given back one by one, when nobody needs them any more; the last holder unmaps the rest.
/// States: mapped -> detached, when a writer comes to the file: its pages become memory of our own, at the same
/// addresses and under running calls, before the writer goes on. Members may be called from any thread.
class WeightMap {
 public:
  struct Made {
    std::shared_ptr<WeightMap> map;  ///< null: copy the weights instead
    const char* why_not = "";
  };
  /// Maps the pages that hold `parts`, which are ranges of `file`, in order. Nobody has paid for them.
  static Made make(const ArtifactFile& file, const std::vector<ByteRange>& parts, MapPolicy policy);
  ~WeightMap();
  WeightMap(const WeightMap&) = delete;
  WeightMap& operator=(const WeightMap&) = delete;

  /// Where a byte of the file lies that belongs to one of the parts.
  [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return base_ + (offset - span_.offset); }
  /// Nobody needs that part any more: its pages go, but for those that hold something of another part.
  void give_back(std::size_t part) noexcept;

  /// Brings what is left into memory, in order, so that no call waits for the disk. Reads only: a page that is written
  /// to would be a copy. False: `stop` was requested.
  bool prefault(const std::stop_token& stop) noexcept;
  /// The same for a map in use, as long as there is one: its end waits for one portion of a few milliseconds at most.
  static void prefault_beside(const std::weak_ptr<WeightMap>& map) noexcept;
  /// Copies the pages out of the file. Calls may read them meanwhile, but what they write may be lost.
  /// When there is no memory for that, the map is lost().
  void detach() noexcept;

  /// Calls may only read it from now on. A write all the same is let through, and makes the map lost() before anything
  /// computed with it is passed on. Before anybody else sees the map.
  void seal() noexcept;

  /// Detaches for good: no lease, no descriptor. Only before anybody else sees the map.
  void leave_file() noexcept;

  [[nodiscard]] bool detached() const noexcept { return detached_.load(std::memory_order_acquire); }
  /// The file was cut short and zeros stand for what is gone, or a call wrote to it although it was sealed: nothing
  /// that was computed since may be passed on.
  [[nodiscard]] bool lost() const noexcept {
    return lost_.load(std::memory_order_acquire) || (watch_ && watch_->lost()) || written();
  }
  [[nodiscard]] bool written() const noexcept { return watch_ && watch_->written(); }
  /// Whether a call wrote, and that of this account may have been it: it was, or nobody knows whose it was.
  [[nodiscard]] bool may_be_written_by(const MemoryAccount& call) const noexcept {
    return written() && (watch_->writer() == &call || watch_->writer() == nullptr);
  }
  /// Bytes of the pages that are left.
  [[nodiscard]] std::size_t bytes() const;
  /// Of all maps in the process that are not detached: pages of files, which are no anonymous memory.
  [[nodiscard]] static std::size_t bytes_in_files() noexcept;

 private:
  struct Part {
    ByteRange pages;
    bool needed = true;
  };

  explicit WeightMap(const std::vector<ByteRange>& parts);

  [[nodiscard]] std::vector<ByteRange> needed_pages() const;
  [[nodiscard]] ByteRange between_neighbours(std::size_t part) const noexcept;
  void announce() noexcept;
  bool bring_in_portion(std::size_t part, std::uint64_t& done) noexcept;

  const char* open(const ArtifactFile& file, MapPolicy policy);
  bool map_file() noexcept;
  bool copy_pages() noexcept;

  std::vector<Part> parts_;    // in order; guarded by mutex_ once the map is shared
  const ByteRange span_;       // from the first page to the last
  int descriptor_ = -1;        // the lease and the watch need it
  std::byte* base_ = nullptr;  // set once, before anybody else sees the map
  mutable std::mutex mutex_;   // held while pages are mapped, copied, read in or given back
  bool sealed_ = false;        // guarded by mutex_
  std::atomic<bool> detached_{false};
  std::atomic<bool> lost_{false};
  std::unique_ptr<WatchedMap> watch_;
  std::unique_ptr<FileLease> lease_;
};

}  // namespace mme::loader
