// Settings over the life of a real server: what is refused at start, what a reload applies, and what models bring
// along.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "tests/e2e/oip.hpp"
#include "tests/e2e/programs.hpp"
#include "tests/e2e/scenario.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/together.hpp"

using namespace mme::test;
using namespace std::chrono_literals;

namespace {

/// A server with a settings file, changed between two reloads.
struct Configured {
  explicit Configured(const std::string& settings, const std::map<std::string, std::string>& models = {{"m", "echo"}},
                      std::vector<std::string> arguments = {}) {
    install(repository.path(), models);
    write(settings);
    arguments.insert(arguments.end(), {"--config", file().string()});
    server.emplace(repository.path(), arguments);
  }
  [[nodiscard]] std::filesystem::path file() const { return folder.path() / "endpoint.yaml"; }
  void write(const std::string& settings) const { std::ofstream(file()) << settings; }
  void write_model(const std::string& relative, const std::string& settings) const {
    std::ofstream(repository.path() / "next") << settings;
    std::filesystem::rename(repository.path() / "next", repository.path() / relative);
  }
  [[nodiscard]] Response reload() const { return server->client().send("POST", "/admin/reload"); }
  [[nodiscard]] Response reload(const std::string& settings) const {
    write(settings);
    return reload();
  }
  [[nodiscard]] Response set_budget(const std::string& body) const {
    return server->client().send("PUT", "/admin/budget", body);
  }

  TempDir folder;
  TempDir repository;
  std::optional<ServerProcess> server;
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Response body_of(HttpClient& client, std::size_t bytes) {
  return client.send("POST", "/v2/models/m/infer", std::string(bytes, ' '), {{"Content-Type", "application/json"}});
}

double budget_of(const ServerProcess& server) {
  return server.metric("mme_memory_budget_bytes");
}

}  // namespace

TEST_CASE("a reload by call or by signal applies what the file says now", "[reload]") {
  Configured it("limits: {body: 10KiB}\ncache: {memory_budget: 300MiB}\n");
  auto client = it.server->client();
  CHECK(body_of(client, 11'000).status == 413);
  const auto reply = it.reload("limits: {body: 20KiB}\ncache: {memory_budget: 200MiB}\n");
  CHECK(reply.status == 200);
  CHECK(reply.json()["applied"] == Json({"cache.memory_budget", "limits.body"}));
  CHECK(reply.json()["memory_budget_bytes"] == 200 * kMiB);
  CHECK(budget_of(*it.server) == 200.0 * kMiB);
  CHECK(body_of(client, 11'000).status == 400);  // read, and no JSON
  it.write("limits: {body: 30KiB}\n");
  kill(it.server->pid(), SIGHUP);
  CHECK(eventually([&] { return body_of(client, 25'000).status == 400; }));
  CHECK(budget_of(*it.server) != 200.0 * kMiB);  // auto again
  CHECK(it.reload().json()["applied"] == Json::array());
  CHECK(it.server->terminate() == 0);
}

TEST_CASE("a reload of a bad file changes nothing and tells every problem, without folders", "[reload]") {
  Configured it("limits: {body: 10KiB}\ncache: {memory_budget: 300MiB}\n");
  auto client = it.server->client();
  const auto reply = it.reload("limits: {body: 20KiB, colour: red}\ncache:\n  memory_budget: 010\n");
  CHECK(reply.status == 400);
  CHECK(reply.header("X-MME-Reason") == "invalid_request");
  CHECK(reply.json()["problems"] ==
        Json({"endpoint.yaml:1: limits.colour: unknown setting",
              "endpoint.yaml:3: cache.memory_budget: a number must not begin with 0, it looks octal"}));
  CHECK(reply.body.find(it.folder.path().string()) == std::string::npos);
  kill(it.server->pid(), SIGHUP);
  CHECK(eventually([&] { return count(it.server->log(), "settings_problem") == 4; }));
  CHECK(body_of(client, 11'000).status == 413);
  CHECK(budget_of(*it.server) == 300.0 * kMiB);
  std::filesystem::remove(it.file());
  const auto gone = it.reload();
  CHECK(gone.status == 400);
  CHECK(gone.json()["problems"] == Json({"endpoint.yaml: there is no such file"}));
  CHECK(infer(client, "m").status == 200);
}

TEST_CASE("a reload that takes a restart is refused by name and changes nothing", "[reload]") {
  Configured it("cache: {memory_budget: 300MiB}\n");
  const auto reply =
      it.reload("cache: {memory_budget: 200MiB}\nmode: single\nthreads: {io: 7}\nmetrics: {per_model: 3}\n");
  CHECK(reply.status == 409);
  CHECK(reply.json()["needs_restart"] == Json({"metrics.per_model", "mode", "threads.io"}));
  CHECK(budget_of(*it.server) == 300.0 * kMiB);
}

TEST_CASE("a change that a flag hides is told; an admin call wins over flags until the end", "[reload]") {
  Configured it("{}\n", {{"m", "echo"}}, {"--memory-budget", "300MiB"});
  auto reply = it.reload("cache: {memory_budget: 100MiB, room_wait: 5s}\n");
  CHECK(reply.status == 200);
  CHECK(reply.json()["applied"] == Json({"cache.room_wait"}));
  CHECK(reply.json()["shadowed"] == Json({{{"key", "cache.memory_budget"}, {"by", "flag --memory-budget"}}}));
  CHECK(it.set_budget(R"({"memory_budget": "200MiB"})").status == 200);
  CHECK(budget_of(*it.server) == 200.0 * kMiB);
  CHECK(it.reload().status == 200);
  CHECK(budget_of(*it.server) == 200.0 * kMiB);
  reply = it.reload("cache: {memory_budget: 120MiB}\n");
  CHECK(reply.json()["shadowed"][0]["by"] == "admin call PUT /admin/budget");
  CHECK(budget_of(*it.server) == 200.0 * kMiB);
  CHECK(it.server->client().get("/status").json()["budget_origin"] == "admin call PUT /admin/budget");
  CHECK(it.set_budget(R"({"memory_budget": null})").status == 200);
  CHECK(budget_of(*it.server) == 300.0 * kMiB);
  CHECK(it.set_budget(R"({"memory_budget": "5XB"})").status == 400);
  CHECK(it.set_budget("[]").status == 400);
  CHECK(budget_of(*it.server) == 300.0 * kMiB);
}

TEST_CASE("a budget below what is pinned is refused and nothing changes", "[reload]") {
  Configured it("cache: {memory_budget: 200MiB, pinned: [p]}\n", {{"p", "big64"}, {"m", "echo"}});
  auto client = it.server->client();
  CHECK(eventually([&] { return client.get("/v2/health/ready").status == 200; }));
  const auto refused = it.set_budget(R"({"memory_budget": "80MiB"})");
  CHECK(refused.status == 409);
  CHECK(refused.header("X-MME-Reason") == "conflict");
  CHECK(it.reload("cache: {memory_budget: 80MiB, pinned: [p], room_wait: 1s}\n").status == 409);
  CHECK(budget_of(*it.server) == 200.0 * kMiB);
  // Let go, it fits.
  CHECK(it.reload("cache: {memory_budget: 80MiB}\n").status == 200);
  CHECK(eventually([&] { return client.get("/models/p").status == 404; }));
}

TEST_CASE("what a reload pins is loaded and stays", "[reload]") {
  Configured it("cache: {memory_budget: 200MiB}\n", {{"p", "big32"}, {"m", "echo"}});
  auto client = it.server->client();
  CHECK(client.get("/models/p").status == 404);
  CHECK(it.reload("cache: {memory_budget: 200MiB}\nmodels: {p: {pinned: true}}\n").status == 200);
  CHECK(eventually([&] { return client.get("/models/p").status == 200; }));
  CHECK(client.get("/status").json()["models"][0]["pinned"] == true);
}

TEST_CASE("a budget that is lowered under load lets models go and refuses nothing that fits", "[reload]") {
  std::map<std::string, std::string> models;
  for (int i = 0; i < 5; ++i) models["twin" + std::to_string(i)] = "big32_" + std::to_string(i);
  Configured it("{}\n", models, {"--memory-budget", std::to_string((5 * 33 + 32) * kMiB)});
  std::atomic<int> right{0};
  std::atomic<int> wrong{0};
  std::atomic<bool> stop{false};
  std::thread lowering([&] {
    eventually([&] { return it.server->metric("mme_models{state=\"ready\"}") == 5; });
    CHECK(it.set_budget("{\"memory_budget\": " + std::to_string((3 * 33 + 32) * kMiB) + "}").status == 200);
    CHECK(eventually([&] { return it.server->metric_sum("mme_memory_bytes") <= budget_of(*it.server); }));
    const int before = right;
    CHECK(eventually([&] { return right > before + 50; }));
    stop = true;
  });
  together(4, [&](int number) {
    auto client = it.server->client();
    for (int i = number; !stop; ++i) {
      const auto response = infer(client, "twin" + std::to_string(i % 5));
      const bool good = response.status == 200 && output(response, "OUTPUT__0")["data"] == Json({2.0, 3.0});
      ++(good ? right : wrong);
      if (!good) UNSCOPED_INFO(response.status << " " << response.body);
    }
  });
  lowering.join();
  CHECK(wrong == 0);
  CHECK(it.server->metric("mme_models{state=\"ready\"}") <= 3);
  CHECK(it.server->metric("mme_cache_evictions_total{reason=\"budget\"}") >= 2);
}

TEST_CASE("the log says as much as log.level, from the next line on", "[reload]") {
  Configured it("log: {level: info}\n");
  auto client = it.server->client();
  CHECK(infer(client, "m").status == 200);
  CHECK(count(it.server->log(), "\"path\":\"/v2/models/m/infer\"") == 0);
  CHECK(it.reload("log: {level: access}\n").status == 200);
  // Another path: a line is written when its reply is sent, which for the first one may be now.
  CHECK(client.get("/v2/models/m/ready").status == 200);
  CHECK(eventually([&] { return count(it.server->log(), "\"path\":\"/v2/models/m/ready\"") == 1; }));
}

TEST_CASE("a models folder that does not exist is warned of at start, and served once it does", "[settings]") {
  TempDir folder;
  const auto models = folder.path() / "later";
  ServerProcess server(models);
  CHECK(eventually([&] { return count(server.log(), "no_models_folder") == 1; }));
  auto client = server.client();
  CHECK(infer(client, "m").status == 404);
  install(models, {{"m", "echo"}});
  CHECK(infer(client, "m").status == 200);
}

TEST_CASE("a model's own bad file makes that model unusable and nothing else", "[model_settings]") {
  Configured it("{}\n", {{"m", "echo"}, {"other", "echo"}});
  auto client = it.server->client();
  CHECK(infer(client, "m").status == 200);
  it.write_model("m.yaml", "pinned: perhaps\ncolour: red\n");
  const auto refused = infer(client, "m");
  CHECK(refused.status == 422);
  CHECK(refused.json()["error"] ==
        "the settings of the model are no good: m.yaml:1: pinned: must be true or false; m.yaml:2: colour: unknown "
        "setting of a model");
  CHECK(client.get("/v2/models/m/ready").status == 503);
  CHECK(infer(client, "other").status == 200);
  CHECK(client.get("/v2/health/ready").status == 200);
  for (const char* list : {"/repository/models"}) {
    const auto models = client.get(list).json()["models"];
    CHECK(models[0]["state"] == "broken");
    CHECK(models[0]["reason"].get<std::string>().find("m.yaml:1") != std::string::npos);
    CHECK(models[1]["state"] == "ready");
  }
  it.write_model("m.yaml", "pinned: true\n");
  CHECK(infer(client, "m").status == 200);
  CHECK(client.get("/status").json()["models"][0]["pinned"] == true);
  std::filesystem::remove(it.repository.path() / "m.yaml");
  CHECK(infer(client, "m").status == 200);
  CHECK(client.get("/status").json()["models"][0]["pinned"] == false);
}

TEST_CASE("a model that pins itself is loaded before the server is ready", "[model_settings]") {
  TempDir repository;
  install(repository.path(), {{"team/p", "big1"}, {"team/q", "echo"}, {"m", "echo"}});
  std::ofstream(repository.path() / "team/p.yaml") << "pinned: true\n";
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(eventually([&] { return client.get("/v2/health/ready").status == 200; }));
  CHECK(client.get("/models/team%2Fp").status == 200);
  CHECK(client.get("/models/m").status == 404);
}

TEST_CASE("declared inputs and outputs name, type and bound what a model takes", "[model_settings]") {
  Configured it("models:\n  sum:\n    inputs: [{name: left}, {name: right}]\n    outputs: [{name: total}]\n",
                {{"m", "echo"}, {"sum", "two"}});
  auto client = it.server->client();
  const Json request{{"inputs", {tensor("right", {1}, "FP32", {1}), tensor("left", {1}, "FP32", {2})}}};
  CHECK(output(infer(client, "sum", request), "total")["data"] == Json({3.0}));
  CHECK(client.get("/v2/models/sum").json()["inputs"][0]["name"] == "left");
  it.write_model("m.yaml", "inputs: [{name: ids, datatype: INT64, shape: [-1]}]\noutputs: [{name: same}]\n");
  CHECK(client.get("/v2/models/m").json()["inputs"] ==
        Json({{{"name", "ids"}, {"datatype", "INT64"}, {"shape", {-1}}}}));
  // A bare array has no datatype; with the declared one every digit survives.
  const auto array =
      client.send("POST", "/models/m/invoke", "[9007199254740993]", {{"Content-Type", "application/json"}});
  CHECK(array.body == "[9007199254740993]");
  CHECK(client.send("POST", "/models/m/invoke", "[1.5]", {{"Content-Type", "application/json"}}).status == 400);
  CHECK(client.send("POST", "/models/m/invoke", "[[1]]", {{"Content-Type", "application/json"}}).status == 400);
  CHECK(infer(client, "m", {{"inputs", {tensor("ids", {1}, "FP32", {1})}}}).status == 400);
  CHECK(output(infer(client, "m", {{"inputs", {tensor("ids", {1}, "INT64", {7})}}}), "same")["data"] == Json({7}));
}

TEST_CASE("aliases, a default version and a time-out of one model hold, and change by a reload", "[model_settings]") {
  Configured it("models: {team/bert: {aliases: [bert], default_version: 1}}\n",
                {{"team/bert/1/model", "ver1"}, {"team/bert/2/model", "ver2"}, {"s", "slow"}});
  auto client = it.server->client();
  const auto answer = [&](const std::string& path) {
    return output(client.post("/v2/models/" + path + "/infer", two_floats()), "OUTPUT__0")["data"];
  };
  CHECK(answer("bert") == Json({1.0, 1.0}));
  CHECK(answer("team%2Fbert") == Json({1.0, 1.0}));
  CHECK(answer("bert/versions/2") == Json({2.0, 2.0}));
  CHECK(it.reload("models: {team/bert: {aliases: [b2], default_version: 2}, s: {timeout: 50ms}}\n").status == 200);
  CHECK(infer(client, "bert").status == 404);
  CHECK(answer("b2") == Json({2.0, 2.0}));
  CHECK(it.server->metric_sum("mme_model_loads_total") == 2);
  CHECK(client.send("DELETE", "/models/b2").status == 200);
  const auto late = infer(client, "s");
  CHECK(late.status == 504);
  CHECK(late.header("X-MME-Reason") == "deadline_exceeded");
}

TEST_CASE("G12: a server with bad settings does not start and says where", "[start]") {
  const std::pair<std::string, std::string> table[] = {
      {"mode: platform\ncache: {idle_unload: 1m}", "x.yaml:2: cache.idle_unload: "},
#include "tests/server/config/bad_settings.inc"
  };
  // All of them in the long form, else three of five: a start is half a second of work.
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < std::size(table); ++i) {
    if (long_run() || i % 5 % 2 == 0) rows.push_back(i);
  }
  TempDir folder;
  // Most of a start is loading libtorch. What is judged is what the settings add to it, in CPU time.
  std::vector<double> starts;
  for (int i = 0; i < 5; ++i) starts.push_back(run_program({"--version"}).cpu_seconds);
  std::ranges::sort(starts);
  const double start = starts[starts.size() / 2];
  std::atomic<std::size_t> next{0};
  std::atomic<int> right{0};
  std::mutex mutex;
  std::vector<std::string> wrong;
  std::vector<double> costs;
  together(2, [&](int number) {
    for (std::size_t at = next++; at < rows.size(); at = next++) {
      const auto& [text, said] = table[rows[at]];
      const auto file = folder.path() / std::to_string(number) / "x.yaml";
      std::filesystem::create_directory(file.parent_path());
      std::ofstream(file) << text;
      const auto run = run_program({"serve", "--config", file.string(), "--port", "0"});
      const std::lock_guard lock(mutex);
      costs.push_back(run.cpu_seconds);
      const bool good = run.exit_code == 2 && run.output.find("/" + said) != std::string::npos;
      if (good) ++right;
      if (!good) wrong.push_back(text + " -> " + std::to_string(run.exit_code) + " " + run.output);
    }
  });
  for (const auto& one : wrong) UNSCOPED_INFO(one);
  CHECK(right == static_cast<int>(rows.size()));
  CHECK(rows.size() >= 40);
  std::ranges::sort(costs);
  const double half = costs[costs.size() / 2];
  UNSCOPED_INFO("a start costs " << start << " s of CPU, a refused one " << half << ", at most " << costs.back());
  CHECK(half < start + 0.3);
  if (long_run() && !kSanitized) CHECK(half < 1);
  const auto directory = run_program({"serve", "--config", folder.path().string()});
  CHECK(directory.exit_code == 2);
  CHECK(directory.output.find("this is not a regular file") != std::string::npos);
  const auto empty = folder.path() / "empty.yaml";
  std::ofstream(empty) << "";
  CHECK(run_program({"check", "--config", empty.string()}).exit_code == 0);
}

TEST_CASE("G12: a port that is taken ends the start", "[start]") {
  TempDir repository;
  ServerProcess first(repository.path());
  const auto second =
      run_program({"serve", "--models", repository.path().string(), "--port", std::to_string(first.port())});
  CHECK(second.exit_code == 1);
  CHECK(second.output.find("cannot_listen") != std::string::npos);
}

TEST_CASE("F16: each setting can come from file, environment or flag, and check shows which won", "[start]") {
  TempDir folder;
  const auto file = folder.path() / "e.yaml";
  std::ofstream(file) << "timeouts: {request: 11s, header: 3s}\nlimits: {body: 5MiB}\n";
  const auto shown = run_program({"check", "--config", file.string(), "--set", "timeouts.request=22s"},
                                 {{"SAGEMAKER_MAX_PAYLOAD_IN_MB", "6"}, {"SAGEMAKER_STARTUP_TIMEOUT", "77"}})
                         .output;
  const auto line = [&](const std::string& begin) {
    const auto at = shown.find(begin);
    return at == std::string::npos ? "" : shown.substr(at, shown.find('\n', at) - at);
  };
  CHECK(line("timeouts.request = 22s").find("# flag --set") != std::string::npos);
  CHECK(line("timeouts.header = 3s").find("e.yaml:1") != std::string::npos);
  CHECK(line("limits.body = 6MiB").find("# environment SAGEMAKER_MAX_PAYLOAD_IN_MB") != std::string::npos);
  CHECK(line("cache.load_timeout = 77s").find("# environment SAGEMAKER_STARTUP_TIMEOUT") != std::string::npos);
  CHECK(line("queue.size = 128").find("# default") != std::string::npos);
}

TEST_CASE("G16: a budget above what the machine has is refused at start", "[start]") {
  const auto refused = run_program({"serve", "--port", "0", "--memory-budget", "900000GiB"});
  CHECK(refused.exit_code == 1);
  CHECK(refused.output.find("cache.memory_budget of 900000GiB is above") != std::string::npos);
}

TEST_CASE("G4: the load timeout is a setting: the caller gets 504, the load goes on", "[settings]") {
  Configured it("cache: {load_timeout: 30ms}\n", {{"m", "slowload_short"}});
  auto client = it.server->client();
  const auto late = infer(client, "m");
  CHECK(late.status == 504);
  CHECK(late.header("X-MME-Reason") == "load_timeout");
  CHECK(it.reload("cache: {load_timeout: 60s}\n").status == 200);
  CHECK(infer(client, "m").status == 200);
}
