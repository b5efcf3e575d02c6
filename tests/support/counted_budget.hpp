// A memory budget for bodies that counts and can refuse. Thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>

#include "server/http/message.hpp"

namespace mme::test {

class CountedBudget {
 public:
  explicit CountedBudget(std::size_t limit = SIZE_MAX) : limit_(limit) {}

  /// The budget must outlive what is claimed from it.
  [[nodiscard]] server::BodyClaim claim() {
    return [this](std::size_t bytes) -> std::shared_ptr<loader::MemoryGrant> {
      if (!take(bytes)) return nullptr;
      return std::make_shared<Grant>(*this, bytes);
    };
  }
  [[nodiscard]] std::size_t used() const {
    const std::lock_guard lock(mutex_);
    return used_;
  }
  /// The most that was ever used at once.
  [[nodiscard]] std::size_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  struct Grant final : loader::MemoryGrant {
    Grant(CountedBudget& b, std::size_t bytes) : budget(b), held(bytes) {}
    Grant(const Grant&) = delete;
    Grant& operator=(const Grant&) = delete;
    ~Grant() override { budget.give(held); }
    bool grow(std::size_t bytes) noexcept override {
      if (!budget.take(bytes)) return false;
      held += bytes;
      return true;
    }
    void shrink(std::size_t bytes) noexcept override {
      budget.give(bytes);
      held -= bytes;
    }
    void keep(std::size_t) noexcept override {}

    CountedBudget& budget;
    std::size_t held;
  };

  bool take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > limit_ - used_) return false;
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return true;
  }
  void give(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
  }

  mutable std::mutex mutex_;
  std::size_t limit_;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace mme::test
