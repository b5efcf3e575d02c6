// The program run to its end, with what it printed.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/server_process.hpp"

namespace mme::test {

struct Finished {
  int exit_code = -1;  ///< -1: it had to be ended, because it served instead of leaving
  std::string output;  ///< standard output and error together
  double cpu_seconds = 0;
};

/// Runs `mme ARGUMENTS...` and waits for its end; a server that starts where it should not is killed.
inline Finished run_program(std::vector<std::string> arguments,
                            const std::map<std::string, std::string>& environment = {}) {
  TempDir folder;
  const auto log = folder.path() / "log";
  arguments.insert(arguments.begin(), program().string());
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const int file = open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  const auto text = [&log] {
    std::ifstream stream(log);
    return std::string{std::istreambuf_iterator<char>(stream), {}};
  };
  Finished finished;
  int status = 0;
  rusage used{};
  while (wait4(pid, &status, WNOHANG, &used) == 0) {
    if (text().find("\"listening\"") != std::string::npos) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (const timeval& part : {used.ru_utime, used.ru_stime}) {
    finished.cpu_seconds += static_cast<double>(part.tv_sec) + 1e-6 * static_cast<double>(part.tv_usec);
  }
  if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
  finished.output = text();
  return finished;
}

}  // namespace mme::test
