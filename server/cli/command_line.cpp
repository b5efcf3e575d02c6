#include "server/cli/command_line.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>
#include <utility>

namespace mme::server {
namespace {

/// What the flags of serve and check leave behind; all text, for the table of settings to read.
struct Flags {
  std::optional<std::string> config;
  std::optional<std::string> models;
  std::optional<std::string> state;
  std::optional<std::string> host;
  std::optional<std::string> port;
  std::optional<std::string> memory_budget;
  std::vector<std::string> set;
};

struct Shorthand {
  const char* flag;
  const char* key;
  std::optional<std::string> Flags::*value;
  const char* help;
};

constexpr Shorthand kShorthands[] = {
    {"--models", "repository.path", &Flags::models, "Folder with the models (./models)"},
    {"--state", "repository.state", &Flags::state,
     "Folder for what is learned of models (.mme below --models), or off"},
    {"--host", "listeners.host", &Flags::host, "Address to listen on (127.0.0.1)"},
    {"--port", "listeners.port", &Flags::port, "Port to listen on, 0 for any (8080)"},
    {"--memory-budget", "cache.memory_budget", &Flags::memory_budget,
     "SIZE that models may take together, such as 4GiB, or auto"},
};

void add_flags(CLI::App& command, Flags& flags) {
  command.add_option("--config", flags.config, "YAML file with settings")->type_name("FILE");
  for (const auto& row : kShorthands) command.add_option(row.flag, flags.*row.value, row.help)->type_name("VALUE");
  command.add_option("--set", flags.set, "Any setting by its dotted name; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

CommandLine usage(std::string complaint) {
  return {Command::none, "mme: " + std::move(complaint) + "\n", kBadUsage, {}, {}};
}

std::optional<Assignment> split(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  return Assignment{"--set", assignment.substr(0, equals), assignment.substr(equals + 1)};
}

CommandLine with_settings(Command command, const Flags& flags, const Environment& environment, const Disk& disk) {
  Sources sources{flags.config, environment, {}};
  for (const auto& row : kShorthands) {
    if (const auto& value = flags.*row.value) sources.flags.push_back({row.flag, row.key, *value});
  }
  for (const auto& text : flags.set) {
    const auto assignment = split(text);
    if (!assignment) return usage("--set takes KEY=VALUE, not '" + text + "'");
    sources.flags.push_back(*assignment);
  }
  CommandLine line{command, {}, 0, resolve(sources, disk), {}};
  line.sources = std::move(sources);
  if (line.resolved.problems.empty()) return line;
  line.exit_code = kBadUsage;
  if (command != Command::serve) return line;
  line.command = Command::none;
  line.output = problem_lines(line.resolved);
  return line;
}

/// CLI11 takes arguments from the last to the first.
std::vector<std::string> reversed(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return {};
  return {arguments.rbegin(), arguments.rend() - 1};
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments, const Environment& environment,
                               const Disk& disk) {
  CLI::App app{"Serves many TorchScript models from one process within a memory budget.", "mme"};
  Flags flags;
  bool version = false;
  app.add_flag("--version", version, "Print the version and leave");
  auto* serve = app.add_subcommand("serve", "Serve the models of a folder");
  auto* check = app.add_subcommand("check", "Show every setting and where its value comes from; serve nothing");
  add_flags(*serve, flags);
  add_flags(*check, flags);
  app.require_subcommand(0, 1);
  try {
    app.parse(reversed(arguments));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return {Command::none, (chosen.empty() ? &app : chosen.front())->help(), 0, {}, {}};
  } catch (const CLI::ParseError& error) {
    return usage(error.what());
  }
  if (version) return {Command::version, {}, 0, {}, {}};
  if (*serve) return with_settings(Command::serve, flags, environment, disk);
  if (*check) return with_settings(Command::check, flags, environment, disk);
  return {Command::none, app.help(), kBadUsage, {}, {}};
}

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string problem_lines(const Resolved& resolved) {
  std::string lines;
  for (const auto& problem : resolved.problems) lines += "mme: " + problem.text() + "\n";
  return lines;
}

}  // namespace mme::server
