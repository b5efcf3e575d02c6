// The table of settings: each key's name, how its value is read into Settings and how it is shown.
// One row a key; files, flags, environment and `mme check` all go through it, so they can never disagree.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/config/settings.hpp"
#include "server/config/value.hpp"

namespace mme::server {

/// What is wrong with a value, for the operator; nullopt when nothing is.
using Complaint = std::optional<std::string>;

struct Key {
  std::string_view name;  ///< dotted: "cache.room_wait"
  /// Leaves the settings as they are when it complains.
  std::function<Complaint(Settings&, const Value&)> read;
  /// As a file would spell it; "" when it is not set at all.
  std::function<std::string(const Settings&)> show;
  bool live = true;  ///< a reload applies it; else it takes a restart
};

/// In the order in which they are documented and shown.
[[nodiscard]] std::span<const Key> keys();
[[nodiscard]] const Key* find_key(std::string_view name);
/// True for "cache", "limits", ...: the part of some key before a dot.
[[nodiscard]] bool is_section(std::string_view name);

/// Settings of one model: the same, on ModelOptions.
struct ModelKey {
  std::string_view name;
  std::function<Complaint(ModelOptions&, const Value&)> read;
  std::function<std::string(const ModelOptions&)> show;
};
[[nodiscard]] std::span<const ModelKey> model_keys();
[[nodiscard]] const ModelKey* find_model_key(std::string_view name);

}  // namespace mme::server
