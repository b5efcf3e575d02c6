// A bounded map that forgets what was used least recently.
// A list in the order of use and an index into it; knows nothing of what it holds.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>

namespace mme::cache {

/// Not thread-safe. References stay good until their entry leaves.
template <class Value>
class RecentMap {
 public:
  explicit RecentMap(std::size_t capacity) : capacity_(capacity) {}
  RecentMap(const RecentMap&) = delete;
  RecentMap& operator=(const RecentMap&) = delete;

  /// Made when there is none; the most recently used one from now on.
  Value& use(const std::string& key) {
    const auto found = places_.find(key);
    if (found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    order_.emplace_front(key, Value{});
    places_.emplace(key, order_.begin());
    if (order_.size() > capacity_) {
      places_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }
  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
  /// Keys and values, the most recently used first.
  [[nodiscard]] const std::list<std::pair<std::string, Value>>& in_order() const noexcept { return order_; }

 private:
  using Order = std::list<std::pair<std::string, Value>>;
  std::size_t capacity_;
  Order order_;
  std::unordered_map<std::string, typename Order::iterator> places_;
};

}  // namespace mme::cache
