// A MemoryGrant that counts, with a limit and refusals on demand.
// No cache behind it; used wherever an account needs one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "loader/memory_grant.hpp"

namespace mme::test {

class CountingGrant final : public loader::MemoryGrant {
 public:
  explicit CountingGrant(std::size_t held = 0, std::size_t limit = SIZE_MAX) : held_(held), limit_(limit) {}

  bool grow(std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    if (grows_++ >= refused_from_ || bytes > limit_ - held_) return false;
    held_ += bytes;
    return true;
  }
  void shrink(std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    take(bytes);
  }
  void keep(std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    take(bytes);
    kept_ += bytes;
  }

  /// The n-th grow() from now on (0 is the next) and all after it are refused.
  void refuse_from(std::size_t n) {
    const std::lock_guard lock(mutex_);
    refused_from_ = n;
    grows_ = 0;
  }
  [[nodiscard]] std::size_t held() const { return read(held_); }
  [[nodiscard]] std::size_t kept() const { return read(kept_); }
  [[nodiscard]] std::size_t grows() const { return read(grows_); }
  /// More was given back than was held: a defect of whoever uses the grant.
  [[nodiscard]] bool overdrawn() const {
    const std::lock_guard lock(mutex_);
    return overdrawn_;
  }

 private:
  [[nodiscard]] std::size_t read(const std::size_t& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }
  void take(std::size_t bytes) {
    overdrawn_ = overdrawn_ || bytes > held_;
    held_ -= bytes;
  }

  mutable std::mutex mutex_;
  std::size_t held_;
  std::size_t limit_;
  std::size_t kept_ = 0;
  std::size_t grows_ = 0;
  std::size_t refused_from_ = SIZE_MAX;
  bool overdrawn_ = false;
};

}  // namespace mme::test
