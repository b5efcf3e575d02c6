#include "loader/torch/lost_pages.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

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
};

namespace {

std::array<WatchedMap::Slot, 16'384> slots;
std::atomic<std::size_t> slots_used{0};  // those from here on were never taken
struct sigaction action_before {};
std::size_t page = 0;

/// Only what is safe in a handler: atomics, fstat and mmap, which is a bare system call.
bool put_zeros(WatchedMap::Slot& slot, std::uintptr_t fault) noexcept {
  const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);
  const std::size_t size = slot.size.load(std::memory_order_relaxed);
  if (begin == 0 || fault < begin || fault - begin >= size) return false;
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

/// Whoever had the signal before us gets those that are not ours.
void pass_on(int number, siginfo_t* info, void* context) {
  if ((action_before.sa_flags & SA_SIGINFO) != 0 && action_before.sa_sigaction != nullptr) {
    return action_before.sa_sigaction(number, info, context);
  }
  if (action_before.sa_handler != SIG_DFL && action_before.sa_handler != SIG_IGN) {
    return action_before.sa_handler(number);
  }
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  sigaction(number, &by_default, nullptr);  // the access is tried again, and ends the process as it would have
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int kept = errno;
  const auto fault = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::size_t used = slots_used.load(std::memory_order_acquire);
  bool done = false;
  for (std::size_t i = 0; i < used && !done; ++i) done = put_zeros(slots[i], fault);
  errno = kept;
  if (!done) pass_on(number, info, context);
}

/// At the first map and not at start: libraries that install handlers of their own have done so by then.
bool install() {
  page = page_size();
  struct sigaction action {};
  action.sa_sigaction = &on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  return sigaction(SIGBUS, &action, &action_before) == 0;
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
  static const bool installed = install();
  if (!installed) return;
  slot_ = free_slot();
  if (slot_ == nullptr) return;
  slot_->lost.store(false);
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

}  // namespace mme::loader
