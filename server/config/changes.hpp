// What a reload would change: which settings differ, which of them can be applied to a running server, and which
// changes in the file have no effect because something else wins. Pure; applying is server/app's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/config/resolve.hpp"

namespace mme::server {

/// Every setting as a file would spell it, by its dotted key; those of models only where they are not the default.
[[nodiscard]] std::map<std::string, std::string> spelled(const Settings& settings);

struct ShadowedChange {
  std::string key;
  std::string by;  ///< "flag --port", "environment SAGEMAKER_BIND_TO_PORT", "admin call PUT /admin/budget"
};

/// All sorted by key.
struct Changes {
  std::vector<std::string> live;        ///< can be applied now
  std::vector<std::string> at_restart;  ///< take effect only when the program starts
  std::vector<ShadowedChange> shadowed;
};

[[nodiscard]] Changes changes_between(const Resolved& before, const Resolved& after);

}  // namespace mme::server
