// The sums of charged bytes by kind. Arithmetic only: who may be charged is the ledger's business.
// Knows no models and no budget.
#pragma once

#include <cstddef>

#include "cache/types.hpp"

namespace mme::cache {

enum class Kind { weights, code, loading, draining, activations, bodies };

/// Not thread-safe. Taking more than was given is a defect: asserted, and never wraps around.
class Charges {
 public:
  void add(Kind kind, std::size_t bytes) noexcept;
  void sub(Kind kind, std::size_t bytes) noexcept;
  void move(Kind from, Kind to, std::size_t bytes) noexcept {
    sub(from, bytes);
    add(to, bytes);
  }

  [[nodiscard]] const MemoryUse& use() const noexcept { return use_; }
  [[nodiscard]] std::size_t total() const noexcept { return use_.total(); }
  /// Everything that models hold, also on their way in and out: what the activation floor is kept free of.
  [[nodiscard]] std::size_t models() const noexcept { return use_.weights + use_.code + use_.loading + use_.draining; }

 private:
  [[nodiscard]] std::size_t& of(Kind kind) noexcept;
  MemoryUse use_;
};

}  // namespace mme::cache
