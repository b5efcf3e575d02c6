#include "loader/torch/page_ranges.hpp"

#include <unistd.h>

#include <algorithm>

namespace mme::loader {

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::vector<ByteRange> pages_of(std::vector<ByteRange> ranges) {
  const std::uint64_t page = page_size();
  std::ranges::sort(ranges, {}, &ByteRange::offset);
  std::vector<ByteRange> pages;
  for (const ByteRange& range : ranges) {
    if (range.size == 0) continue;
    const std::uint64_t begin = range.offset / page * page;
    const std::uint64_t end = (range.end() + page - 1) / page * page;
    if (!pages.empty() && begin <= pages.back().end()) {
      pages.back().size = std::max(end, pages.back().end()) - pages.back().offset;
    } else {
      pages.push_back({begin, end - begin});
    }
  }
  return pages;
}

std::uint64_t total_size(const std::vector<ByteRange>& ranges) noexcept {
  std::uint64_t sum = 0;
  for (const ByteRange& range : ranges) sum += range.size;
  return sum;
}

}  // namespace mme::loader
