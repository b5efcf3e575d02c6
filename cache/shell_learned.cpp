// What was learned, copied out of the ledger for whoever keeps it.
#include <algorithm>
#include <iterator>

#include "cache/shell.hpp"

namespace mme::cache {

LearnedTable Shell::learned() const {
  constexpr std::size_t part = 64;  // some ten microseconds under the mutex
  LearnedTable all;
  LearnedCursor at;
  for (bool more = true; more;) {
    LearnedTable some;
    some.artifacts.reserve(part);
    some.names.reserve(part);
    {
      const std::lock_guard lock(mutex_);
      more = ledger_.learned().copy(at, part, some);
    }
    std::ranges::move(some.artifacts, std::back_inserter(all.artifacts));
    std::ranges::move(some.names, std::back_inserter(all.names));
  }
  return table_of_parts(std::move(all));
}

std::uint64_t Shell::learned_changes() const {
  const std::lock_guard lock(mutex_);
  return ledger_.learned().changes();
}

}  // namespace mme::cache
