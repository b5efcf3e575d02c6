#include "loader/torch/weight_map.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "loader/torch/memory_account.hpp"

namespace mme::loader {
namespace {

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; older headers lack it
#endif

std::atomic<std::size_t> in_files{0};

/// In one system call where the kernel can; else by touching each page.
void bring_in(const std::byte* begin, std::size_t size) noexcept {
  if (madvise(const_cast<std::byte*>(begin), size, MADV_POPULATE_READ) == 0 || errno != EINVAL) return;
  for (std::size_t at = 0; at < size; at += page_size()) {
    static_cast<void>(*static_cast<const volatile std::byte*>(begin + at));
  }
}

/// The same bytes at the same addresses, in memory of our own. Whoever reads them meanwhile sees the one or the other.
bool replace_by_copy(std::byte* begin, std::size_t size, bool sealed) noexcept {
  void* copy = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return false;
  std::memcpy(copy, begin, size);
  if (sealed) mprotect(copy, size, PROT_READ);
  if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, begin) != MAP_FAILED) return true;
  munmap(copy, size);
  return false;
}

/// Address space that holds nothing: it stays ours, so that nobody else's map comes to lie inside ours.
void empty(std::byte* begin, std::size_t size) noexcept {
  mmap(begin, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

ByteRange span_of(const std::vector<ByteRange>& parts) {
  const auto pages = pages_of(parts);
  return pages.empty() ? ByteRange{} : ByteRange{pages.front().offset, pages.back().end() - pages.front().offset};
}

}  // namespace

WeightMap::WeightMap(const std::vector<ByteRange>& parts) : span_(span_of(parts)) {
  for (const ByteRange& part : parts) parts_.push_back({pages_of({part}).at(0)});
}

WeightMap::Made WeightMap::make(const ArtifactFile& file, const std::vector<ByteRange>& parts, MapPolicy policy) {
  if (policy == MapPolicy::off) return {nullptr, "mapping is off"};
  if (parts.empty()) return {nullptr, "no weights"};
  const std::shared_ptr<WeightMap> map(new WeightMap(parts));
  if (const char* problem = map->open(file, policy)) return {nullptr, problem};
  return {map, ""};
}

/// Allocates, and is needed where nothing may fail: nobody pays for it.
std::vector<ByteRange> WeightMap::needed_pages() const {
  const AccountScope nobody(nullptr);
  std::vector<ByteRange> pages;
  for (const Part& part : parts_) {
    if (part.needed) pages.push_back(part.pages);
  }
  return pages_of(std::move(pages));
}

std::size_t WeightMap::bytes() const {
  const std::lock_guard lock(mutex_);
  return total_size(needed_pages());
}

/// What lies between the parts before and behind that are needed, gaps included.
ByteRange WeightMap::between_neighbours(std::size_t part) const noexcept {
  std::uint64_t begin = span_.offset;
  std::uint64_t end = span_.end();
  for (std::size_t before = part; before-- > 0;) {
    if (!parts_[before].needed) continue;
    begin = parts_[before].pages.end();
    break;
  }
  for (std::size_t behind = part + 1; behind < parts_.size(); ++behind) {
    if (!parts_[behind].needed) continue;
    end = parts_[behind].pages.offset;
    break;
  }
  return {begin, end > begin ? end - begin : 0};
}

void WeightMap::give_back(std::size_t part) noexcept {
  const std::lock_guard lock(mutex_);
  const ByteRange free = between_neighbours(part);
  const ByteRange& pages = parts_[part].pages;
  const std::uint64_t begin = std::max(free.offset, pages.offset);
  const std::uint64_t end = std::min(free.end(), pages.end());
  parts_[part].needed = false;
  // No hole: each would split the map in two, and a process may have some 65,000.
  if (free.size > 0) madvise(at(free.offset), free.size, MADV_DONTNEED);
  if (end > begin && !detached()) in_files.fetch_sub(end - begin);
}

/// Why not; null when the file is mapped. The lease comes first, then one more look at the file, then the map.
const char* WeightMap::open(const ArtifactFile& file, MapPolicy policy) {
  descriptor_ = fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (descriptor_ < 0) return "no file descriptor left";
  lease_ = FileLease::take(descriptor_, [this] { detach(); });
  if (!lease_ && policy != MapPolicy::trusted) return "no read lease";
  if (!file.unchanged()) return "the file changed";
  if (!map_file()) return "the system has no map left";
  watch_ = std::make_unique<WatchedMap>(base_, span_.size, descriptor_, span_.offset);
  return watch_->watched() ? nullptr : "too many maps";
}

bool WeightMap::map_file() noexcept {
  const std::lock_guard lock(mutex_);
  if (detached()) return false;  // a writer came before there was anything to copy
  // Without MAP_NORESERVE the kernel would count all of it as memory that may be written.
  void* base = mmap(nullptr, span_.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor_,
                    static_cast<off_t>(span_.offset));
  if (base == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(base);
  in_files.fetch_add(total_size(needed_pages()));
  return true;
}

/// Tells the kernel what will be read; it begins at once.
void WeightMap::announce() noexcept {
  const std::lock_guard lock(mutex_);
  for (const Part& part : parts_) {
    if (part.needed) madvise(at(part.pages.offset), part.pages.size, MADV_WILLNEED);
  }
}

/// False: there are not so many parts. `done`: bytes of it that are in already; 0 when it is through.
bool WeightMap::bring_in_portion(std::size_t part, std::uint64_t& done) noexcept {
  constexpr std::uint64_t portion = std::uint64_t{8} << 20;
  const std::lock_guard lock(mutex_);
  if (part >= parts_.size()) return false;
  const ByteRange& pages = parts_[part].pages;
  const std::uint64_t size = parts_[part].needed ? std::min(portion, pages.size - done) : 0;
  if (size > 0) bring_in(at(pages.offset + done), size);
  done = size > 0 && done + size < pages.size ? done + size : 0;
  return true;
}

bool WeightMap::prefault(const std::stop_token& stop) noexcept {
  announce();
  std::uint64_t done = 0;
  for (std::size_t part = 0; bring_in_portion(part, done); part += done == 0 ? 1 : 0) {
    if (stop.stop_requested()) return false;
  }
  return true;
}

void WeightMap::prefault_beside(const std::weak_ptr<WeightMap>& map) noexcept {
  if (const auto alive = map.lock()) alive->announce();
  std::uint64_t done = 0;
  for (std::size_t part = 0;; part += done == 0 ? 1 : 0) {
    const auto alive = map.lock();
    if (!alive || !alive->bring_in_portion(part, done)) return;
  }
}

void WeightMap::detach() noexcept {
  const std::lock_guard lock(mutex_);
  if (detached()) return;
  if (base_ != nullptr) in_files.fetch_sub(total_size(needed_pages()));
  if (base_ != nullptr && !copy_pages()) lost_.store(true, std::memory_order_release);
  detached_.store(true, std::memory_order_release);
}

void WeightMap::seal() noexcept {
  const std::lock_guard lock(mutex_);
  sealed_ = true;
  watch_->seal();
}

void WeightMap::leave_file() noexcept {
  detach();
  lease_.reset();
  if (watch_ && watch_->lost()) lost_.store(true, std::memory_order_release);
  watch_.reset();
  close(std::exchange(descriptor_, -1));
}

bool WeightMap::copy_pages() noexcept {
  constexpr std::size_t portion = std::size_t{16} << 20;  // memory that is held twice, for a moment
  std::uint64_t end = span_.offset;
  for (const ByteRange& range : needed_pages()) {
    const std::size_t gap = range.offset - end;  // no weight lies there
    if (gap > 0) empty(at(end), gap);
    for (std::size_t done = 0; done < range.size; done += portion) {
      const std::size_t size = std::min<std::size_t>(portion, range.size - done);
      if (!replace_by_copy(at(range.offset + done), size, sealed_ && watch_->sealed())) return false;
    }
    end = range.end();
  }
  if (span_.end() > end) empty(at(end), span_.end() - end);
  return true;
}

std::size_t WeightMap::bytes_in_files() noexcept {
  return in_files.load();
}

WeightMap::~WeightMap() {
  lease_.reset();  // first: it may be detaching
  watch_.reset();
  if (base_ != nullptr && !detached()) in_files.fetch_sub(total_size(needed_pages()));
  if (base_ != nullptr) munmap(base_, span_.size);
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace mme::loader
