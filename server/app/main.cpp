// The program `mme`: command line, process set-up, then the server.
// Order matters: libtorch's libraries read their environment when they are loaded, so it is completed and the program
// started anew before anything of libtorch is touched.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "loader/torch/process_environment.hpp"
#include "loader/torch/torch_runtime.hpp"
#include "server/app/application.hpp"
#include "server/app/log.hpp"
#include "server/cli/check.hpp"
#include "server/cli/command_line.hpp"
#include "server/metrics/process_memory.hpp"

namespace {

using namespace mme::server;

/// Adds what is absent and starts the program anew; returns when nothing is absent or the system refuses.
void complete_environment(char** argv, unsigned intra_op) {
  bool changed = false;
  for (const auto& [name, value] : mme::loader::required_environment(intra_op)) {
    if (std::getenv(name.c_str()) != nullptr) continue;
    setenv(name.c_str(), value.c_str(), 0);
    changed = true;
  }
  if (changed) execv("/proc/self/exe", argv);
}

/// Connections, and models whose files are mapped, take one each; the soft limit is mostly far below what is allowed.
void allow_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void log_model_print(const std::string& text) {
  log(LogLevel::info, "model_printed", {{"text", std::string_view(text)}});
}

int serve(CommandLine line, char** argv) {
  const Resolved& resolved = line.resolved;
  const Settings& settings = resolved.settings;
  complete_environment(argv, settings.threads.intra_op);
  open_log(settings.log.level);
  allow_descriptors();
  mme::loader::start_torch_runtime(settings.threads.intra_op, &log_model_print);
  for (const std::string& variable : resolved.ignored) {
    log(LogLevel::info, "variable_ignored", {{"variable", std::string_view(variable)}});
  }
  const Machine machine = read_machine();
  const unsigned workers = settings.compute_threads(machine.cores()) + settings.threads.loader;
  const ProcessMemory base = process_memory();
  auto memory = memory_budget(settings, machine, base.rss_bytes, workers);
  if (!memory) {
    log(LogLevel::error, "budget", {{"message", std::string_view(memory.error().message)}});
    return 1;
  }
  line.sources.hide_folders = true;  // what a reload says goes to clients, too
  Resources resources{machine, base.rss_bytes, base.anon_bytes, std::move(*memory)};
  return Application(std::move(line.sources), std::move(line.resolved), std::move(resources)).run();
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line = parse_command_line({argv, argv + argc}, process_environment());
  switch (line.command) {
    case Command::none: std::fputs(line.output.c_str(), line.exit_code == 0 ? stdout : stderr); return line.exit_code;
    case Command::version: std::puts("mme " MME_VERSION); return 0;
    case Command::check: {
      const CheckReport report = check_report(line.resolved);
      std::fputs(report.settings.c_str(), stdout);
      std::fputs(report.problems.c_str(), stderr);
      return report.problems.empty() ? 0 : kBadUsage;
    }
    case Command::serve: return serve(line, argv);
  }
  return kBadUsage;
}
