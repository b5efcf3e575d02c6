#include "server/config/settings.hpp"

#include <algorithm>

namespace mme::server {

ModelOptions ModelOptions::or_else(const ModelOptions& other) const {
  ModelOptions both = *this;
  if (!both.pinned) both.pinned = other.pinned;
  if (!both.queue_size) both.queue_size = other.queue_size;
  if (!both.timeout) both.timeout = other.timeout;
  if (!both.default_version) both.default_version = other.default_version;
  if (!both.replace) both.replace = other.replace;
  if (both.aliases.empty()) both.aliases = other.aliases;
  if (both.inputs.empty()) both.inputs = other.inputs;
  if (both.outputs.empty()) both.outputs = other.outputs;
  return both;
}

std::optional<std::filesystem::path> Settings::state_folder() const {
  if (repository.state == "off") return std::nullopt;
  if (repository.state == "auto") return std::filesystem::path(repository.path) / ".mme";
  return repository.state;
}

std::string Settings::real_name(const std::string& name) const {
  const auto found = real_names.find(name);
  return found == real_names.end() ? name : found->second;
}

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
