// A bounded map that forgets what was used least recently.
// Each use gets the next number, so that somebody can walk the entries in parts while they are used. Knows nothing of
// what it holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

namespace mme::cache {

/// Not thread-safe. References stay good until their entry leaves.
template <class Value>
class RecentMap {
 public:
  /// Keys and values by the number of their last use.
  using Order = std::map<std::uint64_t, std::pair<std::string, Value>>;

  explicit RecentMap(std::size_t capacity) : capacity_(capacity) {}

  /// Made when there is none; the most recently used one from now on.
  Value& use(const std::string& key) {
    const auto [place, is_new] = places_.try_emplace(key, next_);
    if (is_new) {
      order_.emplace(next_, std::pair(key, Value{}));
    } else {
      auto node = order_.extract(std::exchange(place->second, next_));
      node.key() = next_;
      order_.insert(std::move(node));
    }
    Value& value = order_.at(next_++).second;
    if (order_.size() > capacity_) {
      places_.erase(order_.begin()->second.first);
      order_.erase(order_.begin());
    }
    return value;
  }
  /// The least recently used first.
  [[nodiscard]] const Order& in_order() const noexcept { return order_; }

 private:
  std::size_t capacity_;
  std::uint64_t next_ = 1;
  Order order_;
  std::unordered_map<std::string, std::uint64_t> places_;
};

}  // namespace mme::cache
