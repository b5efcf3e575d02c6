#include "loader/torch/weight_map.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace mme::loader {
namespace {

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; older headers lack it
#endif

/// In one system call where the kernel can; else by touching each page.
void bring_in(const std::byte* begin, std::size_t size) noexcept {
  if (madvise(const_cast<std::byte*>(begin), size, MADV_POPULATE_READ) == 0 || errno != EINVAL) return;
  for (std::size_t at = 0; at < size; at += page_size()) {
    static_cast<void>(*static_cast<const volatile std::byte*>(begin + at));
  }
}

}  // namespace

WeightMap::WeightMap(std::byte* base, ByteRange span, std::vector<ByteRange> pages, MemoryAccount& account) noexcept
    : base_(base), span_(span), pages_(std::move(pages)), account_(account) {}

std::shared_ptr<WeightMap> WeightMap::make(const ArtifactFile& file, const std::vector<ByteRange>& weights,
                                           MemoryAccount& account) {
  std::vector<ByteRange> pages = pages_of(weights);
  if (pages.empty()) return nullptr;
  const ByteRange span{pages.front().offset, pages.back().end() - pages.front().offset};
  const std::size_t charged = total_size(pages);
  if (!account.charge(charged, BlockKind::tensor)) throw std::bad_alloc();
  // Without MAP_NORESERVE the kernel would count all of it as memory that may be written.
  void* base = mmap(nullptr, span.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.descriptor(),
                    static_cast<off_t>(span.offset));
  if (base == MAP_FAILED) {
    account.release(charged, BlockKind::tensor);
    return nullptr;
  }
  WeightMap* map = nullptr;
  try {
    map = new WeightMap(static_cast<std::byte*>(base), span, std::move(pages), account);
  } catch (...) {
    munmap(base, span.size);
    account.release(charged, BlockKind::tensor);
    throw;
  }
  return std::shared_ptr<WeightMap>(map);
}

bool WeightMap::prefault(const std::stop_token& stop) const noexcept {
  constexpr std::size_t portion = std::size_t{8} << 20;
  for (const ByteRange& range : pages_) {
    std::byte* const begin = at(range.offset);
    madvise(begin, range.size, MADV_WILLNEED);
    for (std::size_t done = 0; done < range.size; done += portion) {
      if (stop.stop_requested()) return false;
      bring_in(begin + done, std::min<std::size_t>(portion, range.size - done));
    }
  }
  return true;
}

WeightMap::~WeightMap() {
  munmap(base_, span_.size);
  account_.release(bytes(), BlockKind::tensor);
}

}  // namespace mme::loader
