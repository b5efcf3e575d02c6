// The values that give back by themselves: grants of calls, bodies and loads, and the hold behind a lease.
// They only remember what to give back; counting is the ledger's.
#pragma once

#include <cstddef>
#include <memory>

#include "cache/decisions.hpp"
#include "cache/lease.hpp"
#include "loader/memory_grant.hpp"

namespace mme::cache {

class Shell;

/// Bytes of one call or one body. Outputs may hold it beyond the lease, and beyond the cache.
class CallGrant final : public loader::MemoryGrant {
 public:
  explicit CallGrant(std::shared_ptr<Shell> shell) noexcept : shell_(std::move(shell)) {}
  CallGrant(const CallGrant&) = delete;
  CallGrant& operator=(const CallGrant&) = delete;
  ~CallGrant() override;
  bool grow(std::size_t bytes) noexcept override;
  void shrink(std::size_t bytes) noexcept override;
  void keep(std::size_t bytes) noexcept override;
  void keep_in_code(std::size_t bytes) noexcept override;
  [[nodiscard]] GrantAccount& account() noexcept { return account_; }

 private:
  std::shared_ptr<Shell> shell_;
  GrantAccount account_;
};

/// Bytes of one load, while it reads. Afterwards the model's charge has taken its place: growing is refused, giving
/// back does nothing.
class LoadGrant final : public loader::MemoryGrant {
 public:
  LoadGrant(std::shared_ptr<Shell> shell, EntryId entry) noexcept : shell_(std::move(shell)), entry_(entry) {}
  bool grow(std::size_t bytes) noexcept override;
  void shrink(std::size_t bytes) noexcept override;
  void keep(std::size_t) noexcept override {}
  [[nodiscard]] bool make_private(const loader::Segment& segment) noexcept override;

 private:
  std::shared_ptr<Shell> shell_;
  EntryId entry_;
};

/// Pin, slot and grant of one call; made before the lease is given, so that giving it cannot fail.
class CallHold final : public Lease::Hold {
 public:
  explicit CallHold(std::shared_ptr<Shell> shell);
  CallHold(const CallHold&) = delete;
  CallHold& operator=(const CallHold&) = delete;
  ~CallHold() override;
  void learn(std::size_t peak_bytes, bool refused) noexcept override;
  void start(const LeaseTerms& terms) noexcept;
  [[nodiscard]] GrantAccount& account() noexcept { return call_grant_->account(); }

 private:
  std::shared_ptr<Shell> shell_;
  CallGrant* call_grant_;  ///< what `grant` points to
  LeaseTerms terms_;
};

}  // namespace mme::cache
