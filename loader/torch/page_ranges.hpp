// Which pages of a file hold given bytes. Pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mme::loader {

struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  [[nodiscard]] std::uint64_t end() const noexcept { return offset + size; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// Bytes of a page of this machine.
[[nodiscard]] std::size_t page_size() noexcept;

/// The pages that hold the ranges, each page once: whole pages, in order, not touching. Ranges must lie below 2^62.
[[nodiscard]] std::vector<ByteRange> pages_of(std::vector<ByteRange> ranges);

[[nodiscard]] std::uint64_t total_size(const std::vector<ByteRange>& ranges) noexcept;

}  // namespace mme::loader
