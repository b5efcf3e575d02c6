#include "tests/support/server_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "loader/torch/process_environment.hpp"

extern char** environ;

namespace mme::test {
namespace {

using namespace std::chrono_literals;

std::string read_file(const std::filesystem::path& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The port of the line that says the server listens; 0 while there is none.
unsigned short listening_port(const std::string& log) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("event", "") == "listening") return json.value("port", 0);
  }
  return 0;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "mme-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path program() {
  return MME_PROGRAM;
}
std::filesystem::path test_models() {
  return MME_TEST_MODELS;
}

ServerProcess::ServerProcess(const std::filesystem::path& models, std::vector<std::string> arguments,
                             const std::map<std::string, std::string>& environment) {
  std::vector<std::string> command{program().string(), "serve",     "--models", models.string(),
                                   "--host",           "127.0.0.1", "--port",   "0"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  // With these the program need not start itself a second time, which saves most of a second each. The demo and the
  // README's commands start it without.
  for (const auto& [name, value] : loader::required_environment(1)) variables.push_back(name + "=" + value);
  auto argv = pointers(command);
  auto envp = pointers(variables);
  const int log = open((directory_.path() / "log").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(log);
  const auto give_up = std::chrono::steady_clock::now() + 60s;
  while ((port_ = listening_port(this->log())) == 0) {
    if (!running() || std::chrono::steady_clock::now() > give_up) {
      throw std::runtime_error("the server did not start:\n" + this->log());
    }
    std::this_thread::sleep_for(20ms);
  }
}

ServerProcess::~ServerProcess() {
  if (!running()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool ServerProcess::running() {
  if (pid_ <= 0) return false;
  if (waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

int ServerProcess::terminate() {
  int status = 0;
  kill(pid_, SIGTERM);
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::string ServerProcess::log() const {
  return read_file(directory_.path() / "log");
}

double ServerProcess::metric(const std::string& series) const {
  std::istringstream lines(HttpClient(port_).get("/metrics").body);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
  }
  return 0;
}

double ServerProcess::metric_sum(const std::string& name) const {
  double sum = 0;
  std::istringstream lines(HttpClient(port_).get("/metrics").body);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + "{") || line.starts_with(name + " "))
      sum += std::stod(line.substr(line.rfind(' ') + 1));
  }
  return sum;
}

std::size_t ServerProcess::rss_bytes() const {
  std::istringstream status(read_file("/proc/" + std::to_string(pid_) + "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6)) * 1024;
  }
  return 0;
}

void make_old(const std::filesystem::path& file) {
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
}

void install(const std::filesystem::path& repository, const std::map<std::string, std::string>& models) {
  for (const auto& [name, stem] : models) {
    const auto target = repository / (name + ".pt");
    std::filesystem::create_directories(target.parent_path());
    // No hard link: a second one changes the ctime of the file, and a server beside us would see a new artifact.
    std::filesystem::copy_file(test_models() / (stem + ".pt"), target);
    make_old(target);
  }
}

}  // namespace mme::test
