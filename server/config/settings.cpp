#include "server/config/settings.hpp"

#include <algorithm>

namespace mme::server {

ModelOptions Settings::options_of(const std::string& model) const {
  const auto found = models.find(model);
  ModelOptions options = found == models.end() ? ModelOptions{} : found->second;
  if (std::find(cache.pinned.begin(), cache.pinned.end(), model) != cache.pinned.end()) options.pinned = true;
  return options;
}

unsigned Settings::compute_threads(unsigned cores) const {
  const unsigned wanted = threads.compute.value_or(cores);
  return std::max(1U, std::min(wanted, limits.running_calls.value_or(wanted)));
}

}  // namespace mme::server
