// What the scenario suites share: waiting for a state, reading the log, replacing files, telling declared refusals.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/oip.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/together.hpp"

namespace mme::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;  ///< freed memory is kept back, so the process's own size says little
#else
inline constexpr bool kSanitized = false;
#endif

inline bool long_run() {
  return std::getenv("MME_LONG") != nullptr;
}

/// `in_long` with MME_LONG, else what CI has time for.
inline int rounds(int in_ci, int in_long) {
  return long_run() ? in_long : in_ci;
}

/// True as soon as `condition` holds; false when it does not within a minute, which no machine is too slow for.
template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds patience = 60s) {
  const auto until = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

/// A refusal for want of room, time or threads: the table of errors allows it to any call.
inline bool declared(unsigned status) {
  return status == 429 || status == 503 || status == 504 || status == 507;
}

inline Json floats(std::vector<float> data) {
  const long count = static_cast<long>(data.size());
  return {{"inputs", {tensor("x", {count}, "FP32", std::move(data))}}};
}

/// A call of `spin32` that takes so many products: 200 are about 0.1 s of one core.
inline Json spin(int products) {
  return floats({static_cast<float>(products), 0});
}

inline Response load(HttpClient& client, const std::string& model) {
  return client.post("/models", {{"model_name", model}, {"url", model + ".pt"}});
}

inline Response unload(HttpClient& client, const std::string& model) {
  return client.send("DELETE", "/models/" + model);
}

inline Response invoke(HttpClient& client, const std::string& model) {
  return client.send("POST", "/models/" + model + "/invoke", "[1, 2]", {{"Content-Type", "application/json"}});
}

/// Puts a test model into the repository as an upload does that keeps times: written beside, then renamed.
inline void upload(const std::filesystem::path& repository, const std::string& name, const std::string& stem) {
  const auto beside = repository / (name + ".part");
  std::filesystem::copy_file(test_models() / (stem + ".pt"), beside, std::filesystem::copy_options::overwrite_existing);
  make_old(beside);
  std::filesystem::rename(beside, repository / (name + ".pt"));
}

/// The lines of the log with that event, in order.
inline std::vector<Json> events(const ServerProcess& server, const std::string& event) {
  std::vector<Json> found;
  std::istringstream lines(server.log());
  for (std::string line; std::getline(lines, line);) {
    auto json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.value("event", "") == event) found.push_back(std::move(json));
  }
  return found;
}

/// The same, of one model.
inline std::vector<Json> events(const ServerProcess& server, const std::string& event, const std::string& model) {
  auto found = events(server, event);
  std::erase_if(found, [&](const Json& line) { return line.value("model", "") != model; });
  return found;
}

inline double loads_of(const ServerProcess& server, const std::string& model) {
  return server.metric("mme_model_loads_total{model=\"" + model + "\"}");
}

/// Of all threads of a process; what work costs is told by this and not by a clock that others share.
inline double cpu_seconds(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text{std::istreambuf_iterator<char>(stat), {}};
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// `--set KEY=VALUE` for each.
inline std::vector<std::string> set(const std::vector<std::string>& settings) {
  std::vector<std::string> arguments;
  for (const auto& setting : settings) {
    arguments.emplace_back("--set");
    arguments.push_back(setting);
  }
  return arguments;
}

/// Settings for a budget of `bytes` for weights and little else: a small activation floor on top.
inline std::vector<std::string> room_for(std::size_t bytes, std::vector<std::string> settings = {}) {
  settings.emplace_back("cache.activation_floor=4MiB");
  settings.push_back("cache.memory_budget=" + std::to_string(bytes + 4 * kMiB));
  return set(settings);
}

}  // namespace mme::test
