// The command line as an operator types it.
#include "server/cli/command_line.hpp"

#include "server/cli/check.hpp"
#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace std::chrono_literals;

namespace {

CommandLine parse(std::vector<std::string> arguments, const Environment& environment = {}) {
  Disk disk;
  disk.read_file = [](const std::string& path) -> mme::loader::Result<std::string> {
    if (path == "good.yaml") return std::string("listeners: {port: 9000}\n");
    if (path == "bad.yaml") return std::string("prot: 1\nqueue: {size: 0}\n");
    return mme::loader::fail(mme::loader::ErrorCode::invalid_request, "there is no such file");
  };
  disk.folder_exists = [](const std::string&) { return false; };
  arguments.insert(arguments.begin(), "mme");
  return parse_command_line(arguments, environment, disk);
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("serve alone serves ./models on loopback", "[cli]") {
  const auto line = parse({"serve"});
  CHECK(line.command == Command::serve);
  CHECK(line.exit_code == 0);
  CHECK(line.resolved.settings.repository.path == "models");
  CHECK(line.resolved.settings.listener.host == "127.0.0.1");
  CHECK(line.resolved.settings.listener.port == 8080);
  CHECK_FALSE(line.resolved.settings.cache.memory_budget);
}

TEST_CASE("serve takes its flags in both spellings and any order", "[cli]") {
  const auto line = parse({"serve", "--set", "cache.room_wait=5s", "--models=/srv/m", "--host", "0.0.0.0", "--port=0",
                           "--memory-budget", "200MiB", "--set=cache.pinned=a,b", "--set",
                           "admin.token_file=", "--config", "good.yaml"});
  // An empty path is the one mistake here, and it is told.
  CHECK(line.command == Command::none);
  CHECK(line.output == "mme: --set: admin.token_file: must not be empty\n");
  const Settings& s = line.resolved.settings;
  CHECK(s.cache.room_wait == 5s);
  CHECK(s.repository.path == "/srv/m");
  CHECK(s.listener.host == "0.0.0.0");
  CHECK(s.listener.port == 0);
  CHECK(s.cache.memory_budget == std::uint64_t{200} << 20);
  CHECK(s.cache.pinned == std::vector<std::string>{"a", "b"});
}

TEST_CASE("what is learned is kept below the models, elsewhere, or not at all", "[cli]") {
  const auto folder = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"serve", "--models", "/srv/m"});
    const auto line = parse(std::move(arguments));
    CHECK(line.command == Command::serve);
    return line.resolved.settings.state_folder().value_or("none").string();
  };
  CHECK(folder({}) == "/srv/m/.mme");
  CHECK(folder({"--state", "auto"}) == "/srv/m/.mme");
  CHECK(folder({"--state", "/var/lib/mme"}) == "/var/lib/mme");
  CHECK(folder({"--state=off"}) == "none");
  CHECK(folder({"--set", "repository.state=off"}) == "none");
  CHECK(folder({"--set", "repository.state=./off"}) == "./off");
  CHECK(parse({"serve", "--state", ""}).output == "mme: --state: repository.state: must not be empty\n");
  const auto report = check_report(parse({"check", "--state", "/s"}).resolved);
  CHECK(holds(report.settings, "repository.state = /s                           # flag --state\n"));
  CHECK(holds(check_report(parse({"check"}).resolved).settings,
              "repository.state = auto                         # default\n"));
}

TEST_CASE("values are text until the table of settings reads them", "[cli]") {
  CHECK(parse({"serve", "--set", "cache.preload=[a]"}).output ==
        "mme: --set: cache.preload: '[a]' is not a model name\n");
  CHECK(parse({"serve", "--models", "a b, c=d"}).resolved.settings.repository.path == "a b, c=d");
  CHECK(parse({"serve", "--set", "repository.path=x=y"}).resolved.settings.repository.path == "x=y");
}

TEST_CASE("every problem is told and nothing is served", "[cli]") {
  const auto line = parse({"serve", "--config", "bad.yaml", "--port", "x", "--set", "a.b=1"});
  CHECK(line.command == Command::none);
  CHECK(line.exit_code == kBadUsage);
  CHECK(line.output ==
        "mme: bad.yaml:1: prot: unknown setting\n"
        "mme: bad.yaml:2: queue.size: must be between 1 and 1000000\n"
        "mme: --port: listeners.port: not a plain number of digits\n"
        "mme: --set: a.b: unknown setting\n");
}

TEST_CASE("a command line that makes no sense is refused with one line", "[cli]") {
  const std::vector<std::vector<std::string>> table{{"start"},
                                                    {"serve", "now"},
                                                    {"serve", "--colour"},
                                                    {"serve", "--port"},
                                                    {"--port", "1"},
                                                    {"serve", "check"},
                                                    {"serve", "--set", "novalue"},
                                                    {"serve", "--set", "=5"},
                                                    {"serve", "--set"},
                                                    {"serve", "--port", "1", "--port", "2"}};
  for (const auto& arguments : table) {
    const auto line = parse(arguments);
    INFO(line.output);
    CHECK(line.command == Command::none);
    CHECK(line.exit_code == kBadUsage);
    CHECK(line.output.starts_with("mme: "));
  }
}

TEST_CASE("help names what there is and nothing that is not built", "[cli]") {
  const auto line = parse({"--help"});
  CHECK(line.exit_code == 0);
  CHECK(holds(line.output, "serve"));
  CHECK(holds(line.output, "check"));
  for (const char* reserved : {"inspect", "plan", "load-test"}) CHECK_FALSE(holds(line.output, reserved));
  const auto serve = parse({"serve", "--help"});
  CHECK(serve.exit_code == 0);
  for (const char* flag : {"--config", "--models", "--state", "--host", "--port", "--memory-budget", "--set"}) {
    CHECK(holds(serve.output, flag));
  }
  const auto nothing = parse({});
  CHECK(nothing.exit_code == kBadUsage);
  CHECK(holds(nothing.output, "serve"));
}

TEST_CASE("the version is asked for without a command", "[cli]") {
  CHECK(parse({"--version"}).command == Command::version);
}

TEST_CASE("check shows every setting with value and origin", "[cli]") {
  const auto line =
      parse({"check", "--config", "good.yaml", "--memory-budget", "1GiB", "--set", "models.team/bert.pinned=true"},
            {{"SAGEMAKER_MODEL_SERVER_TIMEOUT", "90"}, {"MME_ADMIN_TOKEN", "s3cret"}, {"TS_X", "1"}});
  CHECK(line.command == Command::check);
  CHECK(line.exit_code == 0);
  const auto report = check_report(line.resolved);
  CHECK(report.problems.empty());
  CHECK(holds(report.settings, "listeners.port = 9000                           # file good.yaml:1\n"));
  CHECK(holds(report.settings, "cache.memory_budget = 1GiB                      # flag --memory-budget\n"));
  CHECK(holds(report.settings, "timeouts.request = 90s                          # environment "));
  CHECK(holds(report.settings, "cache.room_wait = 30s                           # default\n"));
  CHECK(holds(report.settings, "admin token = (set)                             # environment MME_ADMIN_TOKEN\n"));
  CHECK(holds(report.settings, "models.team/bert.pinned = true                  # flag --set\n"));
  CHECK(holds(report.settings, "# ignored: TS_X\n"));
  CHECK_FALSE(holds(report.settings, "s3cret"));
}

TEST_CASE("check tells problems beside the settings and leaves with an error", "[cli]") {
  const auto line = parse({"check", "--config", "bad.yaml"});
  CHECK(line.command == Command::check);
  CHECK(line.exit_code == kBadUsage);
  const auto report = check_report(line.resolved);
  CHECK(holds(report.problems, "mme: bad.yaml:1: prot: unknown setting\n"));
  CHECK(holds(report.settings, "queue.size = 128"));
}
