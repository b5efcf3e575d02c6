// The parent's side of a handler process: starts it, tells it what to do, ends it.
#include "tests/bench/naive_handlers.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "loader/torch/process_environment.hpp"

namespace mme::bench {
namespace {

/// One thread a call, as the server has it; all else stays what libtorch and the C library do by themselves.
void set_handler_environment() {
  for (const auto& [name, value] : loader::required_environment(1)) {
    if (name != "MALLOC_ARENA_MAX") setenv(name.c_str(), value.c_str(), 1);
  }
  unsetenv("MALLOC_ARENA_MAX");
}

}  // namespace

HandlerProcess::HandlerProcess(const char* when, int incident, const std::filesystem::path& file, std::size_t cap) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no socket pair");
  const std::string number = std::to_string(incident);
  const std::string limit = std::to_string(cap);
  pid_ = fork();
  if (pid_ == 0) {
    set_handler_environment();
    dup2(ends[1], STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "mme_bench", "--handler", when, number.c_str(), file.c_str(), limit.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  stream_ = fdopen(ends[0], "r");
  if (line() != "ready") throw std::runtime_error("the handler did not start");
}

HandlerProcess::~HandlerProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  std::fclose(stream_);
}

void HandlerProcess::say(const std::string& command) {
  dprintf(fileno(stream_), "%s\n", command.c_str());  // the stream itself is for reading
}

/// The next line; nothing when the process has ended.
std::optional<std::string> HandlerProcess::line() {
  char text[256];
  if (std::fgets(text, sizeof(text), stream_) == nullptr) return std::nullopt;
  std::string found = text;
  if (!found.empty() && found.back() == '\n') found.pop_back();
  return found;
}

HandlerProcess::First HandlerProcess::first() {
  say("first");
  First first;
  const auto answer = line();
  if (!answer || std::sscanf(answer->c_str(), "first %lf %lf", &first.milliseconds, &first.answer) != 2) {
    throw std::runtime_error("the handler ended at its first request");
  }
  return first;
}

std::size_t HandlerProcess::activations() {
  say("activations");
  std::size_t bytes = 0;
  const auto answer = line();
  if (!answer || std::sscanf(answer->c_str(), "activations %zu", &bytes) != 1) {
    throw std::runtime_error("the handler ended while it was measured");
  }
  return bytes;
}

HandlerRun HandlerProcess::run(int requests) {
  say("run " + std::to_string(requests));
  HandlerRun run;
  for (;;) {
    const auto answer = line();
    run.stopped = !answer.has_value();
    if (!answer || *answer == "done") return run;
    double took = 0;
    if (std::sscanf(answer->c_str(), "took %lf", &took) != 1) throw std::runtime_error("the handler says " + *answer);
    run.milliseconds.add(took);
    ++run.answered;
  }
}

}  // namespace mme::bench
