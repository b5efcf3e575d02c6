// flag > environment > file > what the mode implies > default, and the origin of each value.
#include <algorithm>
#include <map>

#include "server/config/resolve.hpp"
#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace std::chrono_literals;

namespace {

struct Given {
  std::optional<std::string> file;  ///< content of f.yaml
  Environment environment;
  std::vector<Assignment> flags;
  std::map<std::string, std::string> files;
  std::vector<std::string> folders;

  [[nodiscard]] Resolved resolved() const {
    Disk disk;
    disk.read_file = [this](const std::string& path) -> mme::loader::Result<std::string> {
      if (path == "f.yaml" && file) return *file;
      const auto found = files.find(path);
      if (found == files.end())
        return mme::loader::fail(mme::loader::ErrorCode::invalid_request, "there is no such file");
      return found->second;
    };
    disk.folder_exists = [this](const std::string& path) {
      return std::find(folders.begin(), folders.end(), path) != folders.end();
    };
    Sources sources{file ? std::optional<std::string>("f.yaml") : std::nullopt, environment, flags};
    return resolve(sources, disk);
  }
};

std::vector<std::string> given_problems(const Given& given) {
  std::vector<std::string> lines;
  for (const auto& problem : given.resolved().problems) lines.push_back(problem.text());
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("each layer wins over those below it", "[config]") {
  const std::string file = "listeners: {port: 1}";
  const Environment environment{{"SAGEMAKER_BIND_TO_PORT", "2"}};
  const std::vector<Assignment> flags{{"--port", "listeners.port", "3"}};
  struct Row {
    Given given;
    int port;
    std::string origin;
  };
  const Row table[] = {
      {{}, 8080, "default"},
      {{file, {}, {}, {}, {}}, 1, "file f.yaml:1"},
      {{std::nullopt, environment, {}, {}, {}}, 2, "environment SAGEMAKER_BIND_TO_PORT"},
      {{std::nullopt, {}, flags, {}, {}}, 3, "flag --port"},
      {{file, environment, {}, {}, {}}, 2, "environment SAGEMAKER_BIND_TO_PORT"},
      {{file, {}, flags, {}, {}}, 3, "flag --port"},
      {{std::nullopt, environment, flags, {}, {}}, 3, "flag --port"},
      {{file, environment, flags, {}, {}}, 3, "flag --port"},
  };
  for (const auto& row : table) {
    const auto resolved = row.given.resolved();
    INFO(row.origin);
    CHECK(resolved.problems.empty());
    CHECK(resolved.settings.listener.port == row.port);
    CHECK(resolved.origin("listeners.port").text() == row.origin);
  }
}

TEST_CASE("a mistake is told even where another layer hides the value", "[config]") {
  Given given;
  given.file = "listeners: {port: x}";
  given.flags = {{"--port", "listeners.port", "3"}};
  CHECK(given_problems(given) == Lines{"f.yaml:1: listeners.port: not a plain number of digits"});
}

TEST_CASE("flags set any key, those of models too", "[config]") {
  Given given;
  given.flags = {{"--set", "cache.room_wait", "5s"},
                 {"--set", "cache.pinned", "a,team/b"},
                 {"--set", "models.team/bert.v2.pinned", "true"}};
  const auto resolved = given.resolved();
  CHECK(resolved.problems.empty());
  CHECK(resolved.settings.cache.room_wait == 5s);
  CHECK(resolved.settings.cache.pinned == Lines{"a", "team/b"});
  CHECK(resolved.settings.options_of("team/bert.v2").pinned);
  CHECK(resolved.origin("models.team/bert.v2.pinned").text() == "flag --set");
}

TEST_CASE("a flag is text where text is wanted, whatever it looks like", "[config]") {
  Given given;
  given.flags = {{"--models", "repository.path", "2026"}};
  CHECK(given_problems(given).empty());
  given.flags = {{"--models", "repository.path", "off"}};
  CHECK(given_problems(given).empty());
}

TEST_CASE("bad flags are told by name", "[config]") {
  Given given;
  given.flags = {{"--port", "listeners.port", "70000"}, {"--set", "cache.colour", "red"},
                 {"--set", "models.pinned", "true"},    {"--set", "queue.size", "5"},
                 {"--set", "queue.size", "6"},          {"--memory-budget", "cache.memory_budget", "lots"}};
  CHECK(given_problems(given) == Lines{"--port: listeners.port: must be between 0 and 65535",
                                       "--set: cache.colour: unknown setting", "--set: models.pinned: unknown setting",
                                       "--set: queue.size: already set by --set",
                                       "--memory-budget: cache.memory_budget: not a number"});
}

TEST_CASE("a settings file that cannot be read is a problem", "[config]") {
  Sources sources;
  sources.file = "/nonexistent/mme.yaml";
  CHECK(resolve(sources).problems.at(0).text() == "/nonexistent/mme.yaml: there is no such file");
  sources.file = "/tmp";
  CHECK(resolve(sources).problems.at(0).text() == "/tmp: this is not a regular file");
}

TEST_CASE("a mode brings defaults of its own that everything else wins over", "[config]") {
  Given given;
  given.environment = {{"SAGEMAKER_MULTI_MODEL", "true"}};
  auto resolved = given.resolved();
  CHECK(resolved.problems.empty());
  CHECK(resolved.settings.mode == Mode::platform);
  CHECK(resolved.settings.repository.path == "/opt/ml/models");
  CHECK(resolved.settings.listener.host == "0.0.0.0");
  CHECK(resolved.origin("repository.path").text() == "mode platform");
  given.environment["SAGEMAKER_BASE_DIR"] = "/data";
  CHECK(given.resolved().settings.repository.path == "/data/models");
  given.file = "listeners: {host: 127.0.0.1}";
  given.flags = {{"--models", "repository.path", "mine"}};
  resolved = given.resolved();
  CHECK(resolved.settings.repository.path == "mine");
  CHECK(resolved.settings.listener.host == "127.0.0.1");
}

TEST_CASE("a folder with one unpacked model means mode single, unless something else was said", "[config]") {
  Given given;
  given.folders = {"/opt/ml/model"};
  auto resolved = given.resolved();
  CHECK(resolved.problems.empty());
  CHECK(resolved.settings.mode == Mode::single);
  CHECK(resolved.origin("mode").text() == "mode because /opt/ml/model exists");
  CHECK(resolved.settings.repository.path == "/opt/ml");
  CHECK(resolved.settings.cache.preload == Lines{"model"});
  given.flags = {{"--models", "repository.path", "mine"}};
  CHECK(given.resolved().settings.mode == Mode::self_managed);
  given.flags.clear();
  given.environment = {{"SAGEMAKER_MULTI_MODEL", "true"}};
  CHECK(given.resolved().settings.mode == Mode::platform);
  given.environment.clear();
  given.file = "mode: self_managed";
  CHECK(given.resolved().settings.mode == Mode::self_managed);
}

TEST_CASE("settings that contradict each other are told where they were said", "[config]") {
  Given given;
  given.file =
      "mode: platform\ncache:\n  idle_unload: 5m\n  pinned: [a]\n  preload: [a]\nmodels: {b: {pinned: true}}\n";
  CHECK(given_problems(given) == Lines{"f.yaml:3: cache.idle_unload: the platform unloads models, not mode platform",
                                       "f.yaml:4: cache.pinned: nothing is evicted in mode platform",
                                       "f.yaml:6: models.b.pinned: nothing is evicted in mode platform",
                                       "f.yaml:5: cache.preload: the platform loads models, not mode platform"});
  given.file = "cache: {memory_budget: 10MiB, activation_floor: 10MiB}";
  CHECK(given_problems(given) == Lines{"f.yaml:1: cache.activation_floor: must be smaller than cache.memory_budget"});
}

TEST_CASE("the admin token comes from the environment or from a file that a later layer names", "[config]") {
  Given given;
  CHECK(given.resolved().settings.admin.token.empty());
  given.file = "admin: {token_file: /etc/token}";
  given.files = {{"/etc/token", "s3cret\n"}, {"/etc/other", "other"}, {"/etc/bad", "two words\n"}, {"/etc/empty", ""}};
  CHECK(given.resolved().settings.admin.token == "s3cret");
  CHECK(given.resolved().origin("admin.token").text() == "file f.yaml:1 (admin.token_file)");
  given.environment = {{"MME_ADMIN_TOKEN", "from-environment"}};
  CHECK(given.resolved().settings.admin.token == "from-environment");
  given.flags = {{"--set", "admin.token_file", "/etc/other"}};
  CHECK(given.resolved().settings.admin.token == "other");
  for (const char* path : {"/etc/bad", "/etc/empty", "/etc/missing"}) {
    given.flags = {{"--set", "admin.token_file", path}};
    CHECK(given_problems(given).size() == 1);
  }
}

TEST_CASE("fewer running calls than compute threads bound the threads", "[config]") {
  Settings settings;
  CHECK(settings.compute_threads(8) == 8);
  CHECK(settings.compute_threads(0) == 1);
  settings.limits.running_calls = 3;
  CHECK(settings.compute_threads(8) == 3);
  CHECK(settings.compute_threads(2) == 2);
  settings.threads.compute = 16;
  CHECK(settings.compute_threads(2) == 3);
  settings.limits.running_calls.reset();
  CHECK(settings.compute_threads(2) == 16);
}
