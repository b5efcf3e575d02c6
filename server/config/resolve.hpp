// From a settings file, the environment and flags to the settings that are in force, each with its origin.
// flag > environment > file > what the mode implies > default. Starts nothing and logs nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "loader/error.hpp"
#include "server/config/draft.hpp"
#include "server/config/environment.hpp"

namespace mme::server {

/// `flag` is how the operator wrote it: "--port" or "--set".
struct Assignment {
  std::string flag;
  std::string key;
  std::string value;
};

struct Sources {
  std::optional<std::string> file;  ///< path of the settings file
  Environment environment;
  std::vector<Assignment> flags;
  /// Problems name the file without its folders: for replies, which must not tell where things are on the machine.
  bool hide_folders = false;
};

/// What resolving needs of the disk; faked in tests.
struct Disk {
  /// The content of a small regular file, or why it cannot be had, in one line without the path.
  std::function<loader::Result<std::string>(const std::string& path)> read_file;
  std::function<bool(const std::string& path)> folder_exists;

  static Disk real();
};

struct Resolved {
  Settings settings;
  std::map<std::string, Origin> origins;      ///< of keys that are not at their default
  std::map<std::string, std::string> hidden;  ///< what the file says of keys that a later layer has set
  std::vector<Problem> problems;              ///< all of them; the settings are to be used only when there is none
  std::vector<std::string> ignored;           ///< environment variables without effect, for one log line

  [[nodiscard]] Origin origin(const std::string& key) const;
};

[[nodiscard]] Resolved resolve(const Sources& sources, const Disk& disk = Disk::real());

/// The same with what calls to the running server have set, which wins over everything; `flag` names the call.
[[nodiscard]] Resolved with_admin(const Resolved& resolved, const std::vector<Assignment>& assignments);

}  // namespace mme::server
