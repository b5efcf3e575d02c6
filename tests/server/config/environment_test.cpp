// The hosting contract's environment variables: what they set, what they may hold, what is only noted.
#include "server/config/environment.hpp"

#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace std::chrono_literals;

namespace {

using Lines = std::vector<std::string>;

struct Outcome {
  Draft draft;
  Lines ignored;
};

Outcome read(const Environment& environment) {
  Outcome outcome;
  outcome.ignored = read_environment(environment, outcome.draft);
  return outcome;
}

std::string problem(const std::string& variable, const std::string& value) {
  const auto outcome = read({{variable, value}});
  return outcome.draft.problems.empty() ? "" : outcome.draft.problems.front().text();
}

}  // namespace

TEST_CASE("variables of the contract become settings", "[config]") {
  const auto [draft, ignored] = read({{"SAGEMAKER_MULTI_MODEL", "True"},
                                      {"SAGEMAKER_BIND_TO_PORT", "9001"},
                                      {"SAGEMAKER_BASE_DIR", "/data"},
                                      {"SAGEMAKER_MODEL_SERVER_WORKERS", "4"},
                                      {"SAGEMAKER_MODEL_SERVER_TIMEOUT", "90"},
                                      {"SAGEMAKER_STARTUP_TIMEOUT", "600"},
                                      {"SAGEMAKER_MAX_PAYLOAD_IN_MB", "6"},
                                      {"SAGEMAKER_MAX_CONCURRENT_TRANSFORMS", "2"},
                                      {"MME_ADMIN_TOKEN", "s3cret"},
                                      {"PATH", "/bin"}});
  CHECK(draft.problems.empty());
  CHECK(ignored.empty());
  const Settings& s = draft.settings;
  CHECK(s.mode == Mode::platform);
  CHECK(s.listener.port == 9001);
  CHECK(s.threads.compute == 4U);
  CHECK(s.timeouts.request == 90s);
  CHECK(s.cache.load_timeout == 600s);
  CHECK(s.limits.body == std::uint64_t{6} << 20);
  CHECK(s.limits.running_calls == 2U);
  CHECK(s.admin.token == "s3cret");
  CHECK(draft.origin("timeouts.request").text() == "environment SAGEMAKER_MODEL_SERVER_TIMEOUT");
}

TEST_CASE("of two variables for one thing the clearer one wins and the other is noted", "[config]") {
  const auto [draft, ignored] = read({{"SAGEMAKER_MODEL_SERVER_TIMEOUT", "1"},
                                      {"SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS", "70"},
                                      {"MAX_CONCURRENT_TRANSFORMS", "9"},
                                      {"SAGEMAKER_MAX_CONCURRENT_TRANSFORMS", "3"}});
  CHECK(draft.problems.empty());
  CHECK(draft.settings.timeouts.request == 70s);
  CHECK(draft.settings.limits.running_calls == 3U);
  CHECK(ignored == Lines{"MAX_CONCURRENT_TRANSFORMS (SAGEMAKER_MAX_CONCURRENT_TRANSFORMS is set)",
                         "SAGEMAKER_MODEL_SERVER_TIMEOUT (SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS is set)"});
  CHECK(read({{"MAX_CONCURRENT_TRANSFORMS", "9"}}).draft.settings.limits.running_calls == 9U);
}

TEST_CASE("variables for other servers are noted once and change nothing", "[config]") {
  const auto [draft, ignored] = read({{"SAGEMAKER_PROGRAM", "inference.py"},
                                      {"SAGEMAKER_SAFE_PORT_RANGE", "1000-2000"},
                                      {"SAGEMAKER_TS_BATCH_SIZE", "8"},
                                      {"SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "application/json"},
                                      {"SAGEMAKER_MAX_PAYLOAD_IN_MB", "0"},
                                      {"TS_DISABLE_TOKEN_AUTHORIZATION", "true"},
                                      {"MMS_DEFAULT_WORKERS_PER_MODEL", "1"},
                                      {"MME_PORT", "1"},
                                      {"HOME", "/root"}});
  CHECK(draft.problems.empty());
  CHECK(draft.origins.empty());
  CHECK(ignored == Lines{"MME_PORT", "MMS_DEFAULT_WORKERS_PER_MODEL",
                         "SAGEMAKER_MAX_PAYLOAD_IN_MB (0 asks for no limit, there is always one)", "SAGEMAKER_PROGRAM",
                         "SAGEMAKER_SAFE_PORT_RANGE", "SAGEMAKER_TS_BATCH_SIZE", "TS_DISABLE_TOKEN_AUTHORIZATION"});
}

TEST_CASE("bad values of variables are told by name", "[config]") {
  CHECK(problem("SAGEMAKER_BIND_TO_PORT", "x") ==
        "SAGEMAKER_BIND_TO_PORT: listeners.port: not a plain number of digits");
  CHECK(problem("SAGEMAKER_BIND_TO_PORT", "") == "SAGEMAKER_BIND_TO_PORT: listeners.port: has no value");
  CHECK(problem("SAGEMAKER_BIND_TO_PORT", "65536") ==
        "SAGEMAKER_BIND_TO_PORT: listeners.port: must be between 0 and 65535");
  CHECK(problem("SAGEMAKER_MODEL_SERVER_TIMEOUT", "5m") ==
        "SAGEMAKER_MODEL_SERVER_TIMEOUT: timeouts.request: not a plain number of digits");
  CHECK(problem("SAGEMAKER_MODEL_SERVER_TIMEOUT", "0") ==
        "SAGEMAKER_MODEL_SERVER_TIMEOUT: timeouts.request: must be at least 1ms");
  CHECK(problem("SAGEMAKER_MODEL_SERVER_WORKERS", "0") ==
        "SAGEMAKER_MODEL_SERVER_WORKERS: threads.compute: must be between 1 and 1024, or auto");
  CHECK(problem("SAGEMAKER_MAX_PAYLOAD_IN_MB", "99999999999999") ==
        "SAGEMAKER_MAX_PAYLOAD_IN_MB: limits.body: the size is too large");
  CHECK(problem("SAGEMAKER_MULTI_MODEL", "yes") == "SAGEMAKER_MULTI_MODEL: mode: must be true or false");
  CHECK(problem("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "text/csv") ==
        "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT: replies can only be application/json");
  CHECK(problem("MME_ADMIN_TOKEN", "") == "MME_ADMIN_TOKEN: must be printable characters without spaces");
  CHECK(problem("MME_ADMIN_TOKEN", "two words").find("two words") == std::string::npos);
}
