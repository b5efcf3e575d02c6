// The shell's grants: bytes that grow and shrink, asked for from inside allocators for the most part.
#include <utility>

#include "cache/shell.hpp"

namespace mme::cache {

template <class Try>
bool Shell::grow_or_wait(bool of_load, std::size_t bytes, EntryId grows, Try attempt) {
  std::unique_lock lock(mutex_);
  if (attempt()) {
    return true;
  }
  Decisions decisions;
  if (!ledger_.begin_growth(of_load, bytes, grows, now_(), decisions)) {
    return false;
  }
  Answers answers = collect(decisions);
  lock.unlock();
  perform(std::move(decisions), std::move(answers));
  lock.lock();
  memory_back_.wait_for(lock, growth_wait_, [&] { return ledger_.fits_growth(of_load); });
  ledger_.end_growth(bytes);
  return attempt();
}

bool Shell::grow(GrantAccount& account, std::size_t bytes) noexcept {
  return grow_or_wait(false, bytes, account.entry, [&] { return ledger_.grow(account, bytes); });
}

bool Shell::grow_load(EntryId id, std::size_t bytes) noexcept {
  if (grow_or_wait(true, bytes, id, [&] { return ledger_.grow_load(id, bytes); })) {
    return true;
  }
  const std::lock_guard lock(mutex_);
  ledger_.refuse_load(id, bytes);
  return false;
}

bool Shell::make_private(EntryId id, const loader::Segment& segment) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!ledger_.make_private(id, segment)) return true;
  }
  if (!grow_load(id, segment.bytes)) return false;
  const std::lock_guard lock(mutex_);
  ledger_.leave_segment(id, segment);
  return true;
}

void Shell::shrink(GrantAccount& account, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  ledger_.shrink(account, bytes);
}

void Shell::keep(GrantAccount& account, std::size_t bytes, bool in_code) noexcept {
  const std::lock_guard lock(mutex_);
  ledger_.keep(account, bytes, in_code);
}

void Shell::shrink_load(EntryId id, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  ledger_.shrink_load(id, bytes);
}

void Shell::learn(const LeaseTerms& terms, std::size_t peak) noexcept {
  const std::lock_guard lock(mutex_);
  ledger_.learn(terms, peak);
}

}  // namespace mme::cache
