#include "loader/torch/weight_map.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace mme::loader {

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

WeightMap::~WeightMap() {
  munmap(base_, span_.size);
  account_.release(bytes(), BlockKind::tensor);
}

}  // namespace mme::loader
