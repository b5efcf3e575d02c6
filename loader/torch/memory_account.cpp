#include "loader/torch/memory_account.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace mme::loader {
namespace {

constexpr std::uint64_t closed_mark = std::uint64_t{1} << 48;
constexpr std::uint64_t one_hold = std::uint64_t{1} << 49;
constexpr std::uint64_t bytes_mask = closed_mark - 1;

constexpr std::size_t largest_block = std::size_t{1} << 46;  // keeps sums out of the marks

constexpr std::size_t small_object = std::size_t{16} << 10;
constexpr std::size_t overdraft = std::size_t{1} << 20;
constexpr std::size_t return_portion = std::size_t{64} << 10;

std::atomic<std::size_t> live_accounts{0};
std::atomic<AccountFallback> fallback_of_others{nullptr};

// The address of `suspended_mark` stands for "nobody's, and do not ask the fallback".
char suspended_mark;
thread_local constinit MemoryAccount* thread_account = nullptr;

MemoryAccount* suspended() noexcept {
  return reinterpret_cast<MemoryAccount*>(&suspended_mark);
}

std::size_t bytes_in(std::uint64_t state) noexcept {
  return static_cast<std::size_t>(state & bytes_mask);
}

void raise_to(std::atomic<std::size_t>& peak, std::size_t value) noexcept {
  std::size_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

std::size_t KeptBytes::settle(std::size_t residual) noexcept {
  const std::int64_t net = static_cast<std::int64_t>(residual) - credit_.exchange(0);
  if (net >= 0) return static_cast<std::size_t>(net);
  credit_.fetch_add(-net);
  return 0;
}

MemoryAccount::Handle MemoryAccount::open(std::shared_ptr<MemoryGrant> grant, std::size_t granted, std::size_t step) {
  const AccountScope nobody(nullptr);
  return Handle(new MemoryAccount(std::move(grant), granted, step, false));
}

MemoryAccount::Handle MemoryAccount::open_for_outputs(std::shared_ptr<MemoryGrant> grant) {
  const AccountScope nobody(nullptr);
  return Handle(new MemoryAccount(std::move(grant), 0, default_step, true));
}

MemoryAccount::MemoryAccount(std::shared_ptr<MemoryGrant> grant, std::size_t granted, std::size_t step, bool outputs)
    : state_(one_hold), granted_(granted), step_(step), outputs_(outputs), grant_(std::move(grant)) {
  live_accounts.fetch_add(1);
}

MemoryAccount::~MemoryAccount() {
  if (grant_ && granted_.load() > 0) grant_->shrink(granted_.load());
  live_accounts.fetch_sub(1);
}

bool MemoryAccount::charge(std::size_t bytes, BlockKind kind) noexcept {
  if (bytes > largest_block) {
    mark_refused();
    return false;
  }
  const std::uint64_t before = state_.fetch_add(bytes, std::memory_order_relaxed);
  const std::size_t total = bytes_in(before) + bytes;
  if ((before & closed_mark) != 0) {  // a task that outlives its call: the model's next call pays
    kept_->owed(bytes);
  } else if (total > granted_.load(std::memory_order_relaxed) && !grow_to(total, bytes, kind)) {
    subtract(bytes);
    return false;
  }
  if (kind == BlockKind::object) objects_.fetch_add(bytes, std::memory_order_relaxed);
  raise_to(peak_, total);
  return true;
}

bool MemoryAccount::grow_to(std::size_t total, std::size_t block, BlockKind kind) noexcept {
  const AccountScope nobody(nullptr);
  const std::lock_guard lock(mutex_);
  const std::size_t granted = granted_.load();
  if (total <= granted || !grant_) return true;
  const std::size_t need = total - granted;
  const std::size_t rounded = (need + step_ - 1) / step_ * step_;
  if (ask(rounded) || (rounded != need && ask(need))) return true;
  mark_refused();
  return kind == BlockKind::object && block <= small_object && need <= overdraft;
}

bool MemoryAccount::ask(std::size_t bytes) noexcept {
  if (!grant_->grow(bytes)) return false;
  granted_.fetch_add(bytes);
  return true;
}

void MemoryAccount::release(std::size_t bytes, BlockKind kind) noexcept {
  if (kind == BlockKind::object) objects_.fetch_sub(bytes, std::memory_order_relaxed);
  if (outputs_) give_back(bytes);
  subtract(bytes);
}

void MemoryAccount::give_back(std::size_t bytes) noexcept {
  if (returned_.fetch_add(bytes) + bytes < return_portion) return;
  const AccountScope nobody(nullptr);
  const std::lock_guard lock(mutex_);
  const std::size_t portion = std::min(returned_.exchange(0), granted_.load());
  granted_.fetch_sub(portion);
  if (grant_ && portion > 0) grant_->shrink(portion);
}

/// The last line that may touch the account when it is neither held nor pays for another block.
void MemoryAccount::subtract(std::size_t bytes) noexcept {
  std::uint64_t state = state_.load(std::memory_order_acquire);
  while ((state & closed_mark) == 0) {
    if (!state_.compare_exchange_weak(state, state - bytes, std::memory_order_acq_rel)) continue;
    if (state != bytes) return;
    const AccountScope nobody(nullptr);
    delete this;
    return;
  }
  state_.fetch_add(one_hold - bytes, std::memory_order_acq_rel);  // held while kept_ is used
  kept_->freed(bytes);
  drop();
}

void MemoryAccount::hand_over(std::size_t bytes, BlockKind kind, MemoryAccount& to) noexcept {
  const std::size_t room = std::min(bytes, granted_.load());
  granted_.fetch_sub(room);
  to.granted_.fetch_add(room);
  const std::uint64_t before = to.state_.fetch_add(bytes);
  raise_to(to.peak_, bytes_in(before) + bytes);
  if (kind == BlockKind::object) {
    objects_.fetch_sub(bytes, std::memory_order_relaxed);
    to.objects_.fetch_add(bytes, std::memory_order_relaxed);
  }
  subtract(bytes);
}

AccountBytes MemoryAccount::close(std::shared_ptr<KeptBytes> kept) noexcept {
  kept_ = std::move(kept);
  const std::size_t total = bytes_in(state_.fetch_or(closed_mark, std::memory_order_acq_rel));
  const std::size_t objects = std::min(objects_.load(), total);
  return {total - objects, objects};
}

void MemoryAccount::close_call(std::shared_ptr<KeptBytes> kept, CodeGets code_gets) noexcept {
  const AccountScope nobody(nullptr);
  KeptBytes& credit = *kept;
  const AccountBytes left = close(std::move(kept));
  std::size_t residual = credit.settle(left.tensors + left.objects);
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<MemoryGrant> grant = std::move(grant_);
  std::size_t granted = granted_.exchange(0);
  if (!grant) return;
  if (residual > granted) {
    // Only an overdraft leads here: ask once more, else the next call pays.
    if (grant->grow(residual - granted)) {
      granted = residual;
    } else {
      credit.owed(residual - granted);
      residual = granted;
    }
  }
  const std::size_t in_code = code_gets == CodeGets::all       ? residual
                              : code_gets == CodeGets::objects ? std::min(residual, left.objects)
                                                               : 0;
  if (in_code > 0) grant->keep_in_code(in_code);
  if (residual > in_code) grant->keep(residual - in_code);
  if (granted > residual) grant->shrink(granted - residual);
}

AccountBytes MemoryAccount::close_load(std::shared_ptr<KeptBytes> kept) noexcept {
  const AccountScope nobody(nullptr);
  const AccountBytes left = close(std::move(kept));
  const std::lock_guard lock(mutex_);
  granted_.store(0);
  grant_.reset();
  return left;
}

void MemoryAccount::hold() noexcept {
  state_.fetch_add(one_hold, std::memory_order_relaxed);
}

void MemoryAccount::drop() noexcept {
  const std::uint64_t old = state_.fetch_sub(one_hold, std::memory_order_acq_rel);
  if (((old - one_hold) & ~closed_mark) != 0) return;
  const AccountScope nobody(nullptr);
  delete this;
}

AccountBytes MemoryAccount::bytes() const noexcept {
  const std::size_t total = bytes_in(state_.load());
  const std::size_t objects = std::min(objects_.load(), total);
  return {total - objects, objects};
}

std::size_t MemoryAccount::live() noexcept {
  return live_accounts.load();
}

MemoryAccount* current_account() noexcept {
  if (thread_account == suspended()) return nullptr;
  if (thread_account != nullptr) return thread_account;
  const AccountFallback fallback = fallback_of_others.load(std::memory_order_relaxed);
  return fallback != nullptr ? fallback() : nullptr;
}

AccountScope::AccountScope(MemoryAccount* account) noexcept
    : before_(std::exchange(thread_account, account != nullptr ? account : suspended())) {}

AccountScope::~AccountScope() {
  thread_account = before_;
}

void set_account_fallback(AccountFallback fallback) noexcept {
  fallback_of_others.store(fallback);
}

bool objects_are_metered() noexcept {
  static const bool metered = [] {
    const MemoryAccount::Handle account = MemoryAccount::open(nullptr, 0);
    const AccountScope scope(account.get());
    void* block = ::operator new(64);  // a call of the function itself cannot be optimised away
    const bool counted = account->bytes().objects > 0;
    ::operator delete(block);
    return counted;
  }();
  return metered;
}

}  // namespace mme::loader
