// The weights of one model file, mapped instead of read, and shared by every tensor that lies in them.
// No libtorch: storages hold a WeightMap, which is all that ties them to the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "loader/torch/artifact_file.hpp"
#include "loader/torch/memory_account.hpp"
#include "loader/torch/page_ranges.hpp"

namespace mme::loader {

/// One private, writable map: what is written to it is seen by this model alone, and never by the file.
/// It is charged to the account that it was made for, page by page that holds a weight, until it is unmapped.
class WeightMap {
 public:
  /// Maps the pages that hold `weights`, which are ranges of `file`. Null: the system has no map to give.
  /// Throws std::bad_alloc when the account refuses the bytes (it says so then).
  static std::shared_ptr<WeightMap> make(const ArtifactFile& file, const std::vector<ByteRange>& weights,
                                         MemoryAccount& account);
  ~WeightMap();
  WeightMap(const WeightMap&) = delete;
  WeightMap& operator=(const WeightMap&) = delete;

  /// Where a byte of the file lies that belongs to one of the weights.
  [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return base_ + (offset - span_.offset); }
  /// Brings the weights into memory, in order, so that no call waits for the disk. Reads only: a page that is written
  /// to would be a copy. False: `stop` was requested.
  bool prefault(const std::stop_token& stop) const noexcept;
  /// Bytes that are charged.
  [[nodiscard]] std::size_t bytes() const noexcept { return total_size(pages_); }

 private:
  WeightMap(std::byte* base, ByteRange span, std::vector<ByteRange> pages, MemoryAccount& account) noexcept;

  std::byte* const base_;
  const ByteRange span_;  // of the file: from the first page to the last
  const std::vector<ByteRange> pages_;
  MemoryAccount& account_;  // lives as long as it is charged
};

}  // namespace mme::loader
