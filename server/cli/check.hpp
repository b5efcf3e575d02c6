// `mme check`: every setting with its value and where that comes from, then every problem.
// Makes text; printing it is server/app's business.
#pragma once

#include <string>

#include "server/cli/command_line.hpp"

namespace mme::server {

struct CheckReport {
  std::string settings;  ///< one setting a line: "cache.room_wait = 30s   # default"; valid whatever is wrong
  std::string problems;  ///< one a line, for standard error; empty when the settings are good
};

/// The admin token is told as "(set)", never shown. Variables without effect are listed as comments.
[[nodiscard]] CheckReport check_report(const Resolved& resolved);

}  // namespace mme::server
