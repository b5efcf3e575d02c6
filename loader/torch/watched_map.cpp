#include "loader/torch/watched_map.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <utility>

#include "loader/torch/memory_account.hpp"
#include "loader/torch/page_ranges.hpp"

namespace mme::loader {

/// Read by the signal handler on any thread: only atomics. `begin` is set last and cleared first.
struct WatchedMap::Slot {
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> size{0};
  std::atomic<int> descriptor{0};
  std::atomic<std::uint64_t> offset{0};
  std::atomic<bool> lost{false};
  std::atomic<bool> sealed{false};
  std::atomic<bool> written{false};
  std::atomic<const MemoryAccount*> writer{nullptr};
};

namespace {

std::array<WatchedMap::Slot, 16'384> slots;
std::atomic<std::size_t> slots_used{0};  // those from here on were never taken
std::size_t page = 0;

/// One signal that the nets catch.
struct Net {
  int number;
  bool (*catches)(WatchedMap::Slot&, std::uintptr_t fault) noexcept;
  struct sigaction before {};
};

/// The range that the fault lies in; 0 when the slot has another, or none.
std::uintptr_t range_around(const WatchedMap::Slot& slot, std::uintptr_t fault) noexcept {
  const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);
  const bool inside = begin != 0 && fault >= begin && fault - begin < slot.size.load(std::memory_order_relaxed);
  return inside ? begin : 0;
}

/// Only what is safe in a handler: atomics, fstat and mmap, which is a bare system call.
bool put_zeros(WatchedMap::Slot& slot, std::uintptr_t fault) noexcept {
  const std::uintptr_t begin = range_around(slot, fault);
  const std::size_t size = slot.size.load(std::memory_order_relaxed);
  if (begin == 0) return false;
  slot.lost.store(true, std::memory_order_seq_cst);
  std::uint64_t left = 0;
  struct stat file {};
  if (fstat(slot.descriptor.load(std::memory_order_relaxed), &file) == 0) {
    const auto end = static_cast<std::uint64_t>(file.st_size);
    const std::uint64_t offset = slot.offset.load(std::memory_order_relaxed);
    left = end > offset ? (end - offset + page - 1) / page * page : 0;
  }
  // Also when the file grew again meanwhile, or could not be read: the page at fault must become something.
  const std::uintptr_t from = std::min(begin + left, fault / page * page);
  const std::size_t length = begin + size - from;
  return mmap(reinterpret_cast<void*>(from), length, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

/// The mark comes before the write. All of the range is unsealed: its holders are told, once is enough.
bool let_write(WatchedMap::Slot& slot, std::uintptr_t fault) noexcept {
  const std::uintptr_t begin = range_around(slot, fault);
  if (begin == 0 || !slot.sealed.load(std::memory_order_acquire)) return false;
  if (!slot.written.load()) slot.writer.store(current_account());
  slot.written.store(true, std::memory_order_seq_cst);
  return mprotect(reinterpret_cast<void*>(begin), slot.size.load(std::memory_order_relaxed), PROT_READ | PROT_WRITE) ==
         0;
}

Net lost_pages{SIGBUS, &put_zeros};
Net writes{SIGSEGV, &let_write};

/// Whoever had the signal before us gets those that are not ours. Should that come back to us, it ends there.
void pass_on(const Net& net, siginfo_t* info, void* context) {
  static thread_local bool passing = false;
  const bool again = std::exchange(passing, true);
  const struct sigaction& before = net.before;
  if (!again && (before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(net.number, info, context);
  } else if (!again && before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(net.number);
  } else {
    struct sigaction by_default {};
    by_default.sa_handler = SIG_DFL;
    sigaction(net.number, &by_default, nullptr);  // the access is tried again, and ends the process as it would have
  }
  passing = again;
}

void catch_fault(const Net& net, siginfo_t* info, void* context) {
  const int kept = errno;
  const auto fault = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  bool done = false;
  for (std::size_t i = 0; i < used && !done; ++i) done = net.catches(slots[i], fault);
  errno = kept;
  if (!done) pass_on(net, info, context);
}

void on_bus_error(int, siginfo_t* info, void* context) {
  catch_fault(lost_pages, info, context);
}

void on_segment_fault(int, siginfo_t* info, void* context) {
  catch_fault(writes, info, context);
}

/// When it is wanted and not at start, and again when somebody else took the signal since: libraries install handlers
/// of their own.
bool install(Net& net, void (*handler)(int, siginfo_t*, void*)) noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  page = page_size();
  struct sigaction now {};
  if (sigaction(net.number, nullptr, &now) != 0) return false;
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == handler) return true;
  net.before = now;
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  return sigaction(net.number, &action, nullptr) == 0;
}

WatchedMap::Slot* free_slot() noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto found = std::ranges::find_if(slots, [](const WatchedMap::Slot& slot) { return !slot.taken.load(); });
  if (found == slots.end()) return nullptr;
  found->taken.store(true);
  const auto index = static_cast<std::size_t>(found - slots.begin());
  if (index >= slots_used.load()) slots_used.store(index + 1, std::memory_order_release);
  return &*found;
}

}  // namespace

WatchedMap::WatchedMap(std::byte* begin, std::size_t size, int descriptor, std::uint64_t offset) noexcept
    : slot_(nullptr) {
  if (!install(lost_pages, &on_bus_error)) return;
  slot_ = free_slot();
  if (slot_ == nullptr) return;
  slot_->lost.store(false);
  slot_->sealed.store(false);
  slot_->written.store(false);
  slot_->writer.store(nullptr);
  slot_->size.store(size, std::memory_order_relaxed);
  slot_->descriptor.store(descriptor, std::memory_order_relaxed);
  slot_->offset.store(offset, std::memory_order_relaxed);
  slot_->begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_release);
}

WatchedMap::~WatchedMap() {
  if (slot_ == nullptr) return;
  slot_->begin.store(0, std::memory_order_release);
  slot_->taken.store(false);
}

bool WatchedMap::lost() const noexcept {
  return slot_ != nullptr && slot_->lost.load(std::memory_order_seq_cst);
}

void WatchedMap::seal() noexcept {
  if (slot_ == nullptr || !install(writes, &on_segment_fault)) return;
  slot_->sealed.store(true, std::memory_order_release);
  mprotect(reinterpret_cast<void*>(slot_->begin.load()), slot_->size.load(), PROT_READ);
}

bool WatchedMap::sealed() const noexcept {
  return slot_ != nullptr && slot_->sealed.load(std::memory_order_acquire) && !written();
}

bool WatchedMap::written() const noexcept {
  return slot_ != nullptr && slot_->written.load(std::memory_order_seq_cst);
}

const MemoryAccount* WatchedMap::writer() const noexcept {
  return slot_ != nullptr ? slot_->writer.load() : nullptr;
}

}  // namespace mme::loader
