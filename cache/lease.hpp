// The move-only right to run on a model: a pin on it, a compute slot and an activation grant in one value.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "loader/memory_grant.hpp"
#include "loader/model.hpp"

namespace mme::cache {

/// How the call got its model, for logs and headers.
enum class CacheResult { hit, miss, joined };

/// While a Lease lives its model stays in memory and its compute slot is taken. The destructor is noexcept, cheap and
/// never destroys a model. Not thread-safe; may be moved to another thread.
class Lease {
 public:
  struct Timing {
    CacheResult result = CacheResult::hit;
    std::chrono::nanoseconds load{0};   ///< waited for the model to be in memory
    std::chrono::nanoseconds queue{0};  ///< waited for a slot and room after that
  };

  Lease() = default;
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();

  [[nodiscard]] explicit operator bool() const noexcept { return hold_ != nullptr; }
  [[nodiscard]] loader::Model& model() const noexcept;
  [[nodiscard]] const Timing& timing() const noexcept;
  /// What the model's infer() needs: the grant and the bytes it holds at the start.
  [[nodiscard]] loader::CallContext context(loader::Deadline deadline) const;

  /// Ends the lease and tells what the call took, so that the next grant is right. Without it a lease that is
  /// destroyed teaches nothing.
  void finish(const loader::CallContext& context, bool refused) noexcept;

  /// Implemented by the cache; a lease owns one.
  class Hold {
   public:
    virtual ~Hold() = default;  ///< releases
    virtual void learn(std::size_t peak_bytes, bool refused) noexcept = 0;
    loader::Model* model = nullptr;
    std::shared_ptr<loader::MemoryGrant> grant;
    std::size_t granted_bytes = 0;
    Timing timing;
  };
  explicit Lease(std::unique_ptr<Hold> hold) noexcept : hold_(std::move(hold)) {}

 private:
  std::unique_ptr<Hold> hold_;
};

}  // namespace mme::cache
