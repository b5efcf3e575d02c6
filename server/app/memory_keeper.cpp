#include "server/app/memory_keeper.hpp"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "server/app/log.hpp"
#include "server/metrics/process_memory.hpp"

namespace mme::server {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMiB = std::size_t{1} << 20;
#ifdef MME_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
/// Changes below this are noise.
constexpr std::size_t kStep = 4 * kMiB;
constexpr milliseconds kShortestPause{100};
constexpr milliseconds kLongestPause{10'000};

constexpr std::size_t less(std::size_t from, std::size_t bytes) noexcept {
  return from > bytes ? from - bytes : 0;
}

}  // namespace

MemoryVerdict judge(const MemoryFacts& facts) noexcept {
  MemoryVerdict verdict;
  verdict.uncounted = less(facts.anon, facts.base + facts.charged);
  verdict.trim = verdict.uncounted > TrimPolicy::kMuch;
  verdict.budget = less(facts.budget, less(verdict.uncounted, facts.reserve));
  const std::size_t hundredth = facts.limit / 100;
  if (facts.limit != 0 && facts.anon > 95 * hundredth) {
    verdict.budget = std::min(verdict.budget, less(facts.charged, facts.anon - 90 * hundredth));
  }
  return verdict;
}

bool TrimPolicy::freed(std::size_t bytes, loader::TimePoint now) {
  const std::lock_guard lock(mutex_);
  pending_ = pending_ > SIZE_MAX - bytes ? SIZE_MAX : pending_ + bytes;
  if (pending_ < kMuch && now - last_ < kPause) return false;
  pending_ = 0;
  last_ = now;
  return true;
}

bool TrimPolicy::overdue(loader::TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (pending_ == 0 || now - last_ < kPause) return false;
  pending_ = 0;
  last_ = now;
  return true;
}

MemoryKeeper::MemoryKeeper(cache::ModelCache& cache, WorkerPool& reaper, std::size_t base, MappedBytes mapped)
    : cache_(cache), reaper_(reaper), base_(base), mapped_(std::move(mapped)) {}

void MemoryKeeper::step(std::size_t budget, std::size_t reserve, std::size_t limit) {
  if constexpr (kSanitized) return;  // sanitizers keep freed memory back and have much of their own
  // The books first: what is charged between the two looks then counts as uncounted for once, never the other way.
  const std::size_t mapped_before = mapped_ ? mapped_() : 0;
  const std::size_t used = cache_.used().total();
  // A map that comes or goes meanwhile is not taken off.
  const std::size_t charged = less(used, mapped_ ? std::min(mapped_before, mapped_()) : 0);
  const MemoryFacts facts{process_memory().anon_bytes, base_, charged, reserve, budget, limit};
  if (facts.anon == 0) return;  // not readable just now: no descriptors
  const MemoryVerdict verdict = judge(facts);
  const auto now = loader::Clock::now();
  if (verdict.trim && now >= next_trim_ && !*trimming_) {
    // What trimming does not bring back is held by somebody; then there is no hurry to try again.
    const bool futile = verdict.uncounted + kMiB > uncounted_at_trim_ && uncounted_at_trim_ != 0;
    pause_ = futile ? std::min(2 * pause_, kLongestPause) : kShortestPause;
    uncounted_at_trim_ = verdict.uncounted;
    next_trim_ = now + pause_;
    trim_later();
  }
  apply(verdict, budget);
}

void MemoryKeeper::trim_later() {
  *trimming_ = true;
  reaper_.post([trimming = trimming_] {
    malloc_trim(0);
    *trimming = false;
  });
}

/// Lowers the cache's budget, and puts it back.
void MemoryKeeper::apply(const MemoryVerdict& verdict, std::size_t budget) {
  const bool low = verdict.budget + kStep < budget;
  if (!low && !lowered_) return;
  if (!low) {
    if (!cache_.set_budget(budget)) return;  // models were pinned meanwhile: tried again
    lowered_ = false;
    log(LogLevel::info, "memory_uncounted_gone", {{"budget_bytes", static_cast<std::int64_t>(budget)}});
    return;
  }
  const cache::CacheStatus status = cache_.status();
  const std::size_t wanted = std::max(verdict.budget, status.pinned_bytes + status.activation_floor);
  const std::size_t differs = std::max(wanted, status.budget) - std::min(wanted, status.budget);
  if (differs < kStep || !cache_.set_budget(wanted)) return;
  lowered_ = true;
  log(LogLevel::warning, "memory_uncounted",
      {{"message", "the process holds memory that no model accounts for; it comes off the budget until it is gone"},
       {"uncounted_bytes", static_cast<std::int64_t>(verdict.uncounted)},
       {"budget_bytes", static_cast<std::int64_t>(wanted)}});
}

}  // namespace mme::server
