// What the cache tells the world: one call per event, for logs and metrics. Called without the lock; must not block.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "cache/lease.hpp"
#include "loader/error.hpp"
#include "loader/model.hpp"

namespace mme::cache {

/// Why a model left memory; the label of mme_cache_evictions_total.
enum class EvictionReason { room, idle, unload, replaced, budget, file_changed, activations };
[[nodiscard]] std::string_view to_string(EvictionReason reason) noexcept;

/// What is stuck, and so which pool lost a thread.
enum class StuckWork { call, load };
[[nodiscard]] std::string_view to_string(StuckWork work) noexcept;

/// Default: hears nothing. Members may be called from any thread, several at once.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void found(const loader::ModelSpec&, CacheResult) {}
  virtual void load_started(const loader::ModelSpec&, std::size_t /*estimated_bytes*/) {}
  virtual void load_ended(const loader::ModelSpec&, std::size_t /*bytes*/, std::chrono::nanoseconds /*took*/,
                          const loader::Error* /*null: success*/) {}
  /// `cause`: the name of the model whose claim needed the room; empty when there is none.
  virtual void evicted(const loader::ModelSpec&, std::size_t /*bytes*/, EvictionReason, std::string_view /*cause*/) {}
  virtual void refused(const loader::ModelSpec&, const loader::Error&) {}
  /// A call or load is far past its time and its thread is written off: its pool may start another in its place (R15).
  virtual void quarantined(const loader::ModelSpec&, StuckWork) {}
  /// Work that was written off has ended after all: its thread is back, and its pool may do without one.
  virtual void recovered(const loader::ModelSpec&, StuckWork) {}
  /// A load took far more or less than the same content did before: by more than 10 % and 1 MiB. Bytes.
  virtual void size_drifted(const loader::ModelSpec&, std::size_t /*learned*/, std::size_t /*measured*/) {}
  /// Another content of that name takes more than 1.5 times what the one before it took, and 16 MiB more. Bytes.
  virtual void model_grew(const loader::ModelSpec&, std::size_t /*before*/, std::size_t /*now*/) {}
};

}  // namespace mme::cache
