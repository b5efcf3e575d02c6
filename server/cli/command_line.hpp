// What the program was asked to do: command, settings and everything wrong with them.
// Starts nothing, prints nothing, logs nothing; server/app acts on the answer.
#pragma once

#include <string>
#include <vector>

#include "server/config/resolve.hpp"

namespace mme::server {

enum class Command {
  none,  ///< nothing to do but show `output` and leave with `exit_code`: help, or a command line that is no good
  serve,
  check,
  version,
};

struct CommandLine {
  Command command = Command::none;
  std::string output;  ///< whole lines; for standard output when exit_code is 0, else for standard error
  int exit_code = 0;
  Resolved resolved;     ///< serve and check only
  Sources sources = {};  ///< where they come from, to be read again by a reload
};

/// Exit status of a command line, a settings file or an environment that is no good.
inline constexpr int kBadUsage = 2;

/// `arguments`: argv with the program's name. With problems in the settings `serve` comes back as Command::none with
/// all of them in `output`, one a line; `check` comes back complete, see check_report().
[[nodiscard]] CommandLine parse_command_line(const std::vector<std::string>& arguments, const Environment& environment,
                                             const Disk& disk = Disk::real());

/// The process's own environment.
[[nodiscard]] Environment process_environment();

/// One line a problem, each ending in a newline; "" when there is none.
[[nodiscard]] std::string problem_lines(const Resolved& resolved);

}  // namespace mme::server
