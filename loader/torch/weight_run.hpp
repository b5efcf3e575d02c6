// Weights in a map that are held, paid for and given back together, by one model or by several.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "loader/torch/memory_account.hpp"
#include "loader/torch/weight_map.hpp"

namespace mme::loader {

/// One part of a map. Paid for by the account of one load, or by the cache, which then charges it as a segment once for
/// all that hold it. Goes with its last holder, and its pages with it.
/// Members may be called from any thread.
class WeightRun {
 public:
  /// `weights`: where they lie in the file, in order; together they are part number `part` of the map.
  WeightRun(std::shared_ptr<WeightMap> map, std::size_t part, std::vector<ByteRange> weights, std::size_t bytes)
      : map_(std::move(map)), part_(part), weights_(std::move(weights)), bytes_(bytes) {}
  ~WeightRun();
  WeightRun(const WeightRun&) = delete;
  WeightRun& operator=(const WeightRun&) = delete;

  [[nodiscard]] std::byte* data(std::size_t weight) const noexcept { return map_->at(weights_[weight].offset); }
  [[nodiscard]] const std::shared_ptr<WeightMap>& map() const noexcept { return map_; }
  /// What it is charged.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// False: the account refuses the bytes, and says so from then on.
  [[nodiscard]] bool charge_to(MemoryAccount& account) noexcept;
  /// The account pays no more: the cache does from now on, or the run is about to go.
  void uncharge() noexcept;

  /// Compares all bytes.
  [[nodiscard]] bool holds_the_same_as(const WeightRun& other) const noexcept;

 private:
  const std::shared_ptr<WeightMap> map_;
  const std::size_t part_;
  const std::vector<ByteRange> weights_;
  const std::size_t bytes_;
  std::atomic<MemoryAccount*> payer_{nullptr};  // lives as long as it pays
};

}  // namespace mme::loader
