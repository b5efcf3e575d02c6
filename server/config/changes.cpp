#include "server/config/changes.hpp"

#include <set>

namespace mme::server {
namespace {

using Spelled = std::map<std::string, std::string>;

/// Keys that one of two tables lacks or spells otherwise.
std::set<std::string> differing(const Spelled& before, const Spelled& after) {
  std::set<std::string> keys;
  for (const auto& [key, value] : before) {
    const auto now = after.find(key);
    if (now == after.end() || now->second != value) keys.insert(key);
  }
  for (const auto& [key, value] : after) {
    if (!before.contains(key)) keys.insert(key);
  }
  return keys;
}

/// Only model settings are not in the table of keys, and all of those are live.
bool is_live(const std::string& key) {
  const Key* row = find_key(key);
  return row == nullptr || row->live;
}

}  // namespace

Spelled spelled(const Settings& settings) {
  Spelled all;
  for (const auto& key : keys()) all[std::string(key.name)] = key.show(settings);
  const ModelOptions standard;
  for (const auto& [model, options] : settings.models) {
    for (const auto& key : model_keys()) {
      std::string value = key.show(options);
      if (value != key.show(standard)) all["models." + model + "." + std::string(key.name)] = std::move(value);
    }
  }
  return all;
}

Changes changes_between(const Resolved& before, const Resolved& after) {
  Changes changes;
  for (const auto& key : differing(spelled(before.settings), spelled(after.settings))) {
    (is_live(key) ? changes.live : changes.at_restart).push_back(key);
  }
  if (before.settings.admin.token != after.settings.admin.token) changes.at_restart.emplace_back("admin.token");
  for (const auto& key : differing(before.hidden, after.hidden)) {
    // A key that became hidden, or is no longer, is no change of the file by itself.
    const bool in_both = before.hidden.contains(key) && after.hidden.contains(key);
    const bool newly_said = after.hidden.contains(key) && before.origin(key).layer != Layer::file;
    if (in_both || newly_said) changes.shadowed.push_back({key, after.origin(key).text()});
  }
  return changes;
}

}  // namespace mme::server
