// What an administrator can change of the running server's settings. Implemented by server/app; faked in tests.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loader/error.hpp"
#include "server/config/changes.hpp"

namespace mme::server {

namespace asio = boost::asio;

/// What came of asking for a change. With an error nothing was changed at all.
struct SettingsOutcome {
  std::optional<loader::Error> error;
  std::vector<std::string> problems;       ///< everything wrong with the file: "endpoint.yaml:3: cache.room_wait: ..."
  std::vector<std::string> needs_restart;  ///< keys whose change was refused
  std::vector<std::string> applied;        ///< keys
  std::vector<ShadowedChange> shadowed;    ///< changes in the file without effect
  std::uint64_t budget_bytes = 0;          ///< in force now
};

/// Thread-safe. Changes happen one after another, on a thread of their own.
class SettingsService {
 public:
  virtual ~SettingsService() = default;

  /// Reads the settings file anew; all of it is applied, or nothing. invalid_request: the file is no good; conflict:
  /// a change takes a restart, or the budget cannot hold what is pinned.
  virtual asio::awaitable<SettingsOutcome> reload() = 0;
  /// A SIZE or "auto" that wins over flags, environment and file until the program ends; nullopt: that no longer.
  virtual asio::awaitable<SettingsOutcome> set_budget(std::optional<std::string> size) = 0;
};

}  // namespace mme::server
