// Which models were active just now, so that one of them cannot take the whole compute pool (R17).
// Remembers the last two; decides nothing else.
#pragma once

#include <chrono>
#include <cstdint>

#include "cache/types.hpp"

namespace mme::cache {

/// The two models active last are enough to answer "was any other than this one active lately".
class RecentModels {
 public:
  static constexpr std::chrono::seconds window{1};

  void touch(std::uint64_t model, TimePoint now) noexcept {
    if (last_.model != model) {
      before_ = last_;
    }
    last_ = {model, now};
  }
  [[nodiscard]] bool other_than(std::uint64_t model, TimePoint now) const noexcept {
    const Activity& other = last_.model == model ? before_ : last_;
    return other.model != 0 && now - other.at < window;
  }

 private:
  struct Activity {
    std::uint64_t model = 0;  ///< 0: none
    TimePoint at;
  };
  Activity last_;
  Activity before_;
};

}  // namespace mme::cache
