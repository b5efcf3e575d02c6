#include "server/app/observers.hpp"

#include <algorithm>

#include "server/app/log.hpp"

namespace mme::server {

void StuckThreads::quarantined(const loader::ModelSpec&, cache::StuckWork work) {
  count(work, 1);
}

void StuckThreads::recovered(const loader::ModelSpec&, cache::StuckWork work) {
  count(work, -1);
}

void StuckThreads::count(cache::StuckWork work, int change) {
  const std::lock_guard lock(mutex_);
  Pool& pool = pools_.at(static_cast<std::size_t>(work));
  pool.stuck += change;
  const int wanted = std::max(0, pool.stuck);
  for (; pool.replaced > wanted; --pool.replaced) pool.pool->remove_thread();
  for (; pool.replaced < wanted; ++pool.replaced) {
    if (!pool.pool->add_thread()) {
      log(LogLevel::error, "thread_not_replaced", {{"work", to_string(work)}});
      return;
    }
  }
}

}  // namespace mme::server
