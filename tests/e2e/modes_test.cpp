// The modes platform and single, as a SageMaker host would use them.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "tests/e2e/oip.hpp"
#include "tests/e2e/programs.hpp"
#include "tests/e2e/scenario.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/together.hpp"

using namespace mme::test;
using namespace std::chrono_literals;

namespace {

using Models = std::map<std::string, std::string>;
const std::map<std::string, std::string> kPlatform{{"SAGEMAKER_MULTI_MODEL", "true"}};

/// A repository as the platform lays it out: ROOT/HASH/model/model.pt.
struct Platform {
  explicit Platform(const std::map<std::string, std::string>& models, std::vector<std::string> arguments = {}) {
    std::map<std::string, std::string> files;
    for (const auto& [hash, stem] : models) files[hash + "/model/model"] = stem;
    install(repository.path(), files);
    server.emplace(repository.path(), std::move(arguments), kPlatform);
  }
  [[nodiscard]] std::string url(const std::string& hash) const { return (repository.path() / hash / "model").string(); }
  Response load(HttpClient& client, const std::string& hash) const {
    return client.post("/models", {{"model_name", hash}, {"url", url(hash)}});
  }

  TempDir repository;
  std::optional<ServerProcess> server;
};

}  // namespace

TEST_CASE("platform: only what was loaded exists, from load to unload", "[platform]") {
  Platform it(Models{{"abc", "add1"}, {"def", "add1"}});
  auto client = it.server->client();
  CHECK(client.get("/ping").status == 200);
  CHECK(client.get("/ping").body.empty());
  CHECK(client.get("/models").json() == Json({{"models", Json::array()}}));
  const auto nothing = [&](const std::string& name) {
    CHECK(invoke(client, name).status == 404);
    CHECK(client.get("/models/" + name).status == 404);
    CHECK(client.send("DELETE", "/models/" + name).status == 404);
    CHECK(client.get("/v2/models/" + name).status == 404);
    CHECK(client.get("/v2/models/" + name + "/ready").status == 404);
    CHECK(infer(client, name).status == 404);
  };
  nothing("abc");
  nothing("abc%2Fmodel");
  CHECK(client.send("POST", "/invocations", "[1]").status == 400);
  CHECK(client.send("POST", "/v2/repository/index", "").json() == Json::array());
  CHECK(client.get("/repository/models").json()["models"].size() == 2);

  CHECK(it.load(client, "abc").status == 200);
  CHECK(invoke(client, "abc").body == "[2.0, 3.0]");
  CHECK(client.send("POST", "/invocations", "[1]").body == "[2.0]");
  CHECK(client.get("/models/abc").json()["modelName"] == "abc");
  CHECK(client.get("/models/abc").json()["modelUrl"] == "abc/model/model.pt");
  CHECK(client.get("/models").json()["models"].size() == 1);
  CHECK(client.get("/v2/models/abc/ready").status == 200);
  CHECK(client.send("POST", "/v2/repository/index", "").json()[0]["state"] == "READY");
  const auto again = it.load(client, "abc");
  CHECK(again.status == 409);
  CHECK(again.json()["type"] == "ConflictStatusException");
  nothing("def");

  CHECK(client.send("DELETE", "/models/abc").status == 200);
  nothing("abc");
  CHECK(client.get("/ping").status == 200);
  CHECK(it.load(client, "abc").status == 200);
  CHECK(it.server->metric_sum("mme_cache_evictions_total") == 1);  // the DELETE
}

TEST_CASE("platform: a load is refused by what it names", "[platform]") {
  Platform it(Models{{"abc", "echo"}, {"bad", "trunc"}});
  auto client = it.server->client();
  const auto load = [&](const std::string& url) {
    return client.post("/models", {{"model_name", "m"}, {"url", url}}).status;
  };
  CHECK(load(it.url("nowhere")) == 404);
  CHECK(load("/etc/passwd") == 400);
  CHECK(load("/dev/zero") == 400);
  CHECK(load(it.url("abc") + "/../../../etc") == 400);
  CHECK(load("s3://bucket/model") == 400);
  CHECK(load(it.url("bad")) == 422);
  CHECK(client.post("/models", {{"model_name", "../m"}, {"url", it.url("abc")}}).status == 400);
  CHECK(client.post("/models", {{"url", it.url("abc")}}).status == 400);
  CHECK(client.get("/models").json()["models"].empty());
}

TEST_CASE("platform: 507 comes early, and nothing is evicted by ourselves", "[platform]") {
  Platform it(Models{{"a", "big32_0"}, {"b", "big32_1"}, {"c", "big32_2"}, {"huge", "big64"}},
              {"--memory-budget", std::to_string((2 * 33 + 20) * kMiB), "--set", "cache.activation_floor=20MiB"});
  auto client = it.server->client();
  CHECK(it.load(client, "a").status == 200);
  CHECK(it.load(client, "b").status == 200);
  for (const char* hash : {"c", "huge"}) {
    const auto full = it.load(client, hash);
    CHECK(full.status == 507);
    CHECK(full.json()["type"] == "InsufficientMemoryException");
    CHECK(client.get(std::string("/models/") + hash).status == 404);
  }
  // Refused before a byte was read: no load of them ever began.
  CHECK(it.server->metric_sum("mme_model_loads_total") == 2);
  CHECK(invoke(client, "a").status == 200);
  CHECK(invoke(client, "b").status == 200);
  CHECK(it.server->metric_sum("mme_cache_evictions_total") == 0);
  CHECK(client.send("DELETE", "/models/a").status == 200);
  CHECK(it.load(client, "c").status == 200);
}

TEST_CASE("platform: a load that is retried or raced happens once", "[platform]") {
  Platform it(Models{{"abc", "slowload_short"}});
  std::atomic<int> loaded{0};
  std::atomic<int> conflicts{0};
  together(8, [&](int) {
    auto client = it.server->client();
    const auto reply = it.load(client, "abc");
    if (reply.status == 200) ++loaded;
    if (reply.status == 409) {
      ++conflicts;
      // Told that it is there, a platform invokes it at once.
      if (invoke(client, "abc").status != 200) conflicts += 100;
    }
  });
  CHECK(loaded == 1);
  CHECK(conflicts == 7);
  CHECK(it.server->metric_sum("mme_model_loads_total") == 1);
}

TEST_CASE("platform: DELETE against invoke ends in an answer or a 404", "[platform]") {
  Platform it(Models{{"abc", "add1"}});
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0};
  std::atomic<int> unknown{0};
  std::atomic<int> odd{0};
  together(4, [&](int number) {
    auto client = it.server->client();
    if (number == 0) {
      for (int round = 0; round < 100; ++round) {
        if (it.load(client, "abc").status != 200) ++odd;
        if (client.send("DELETE", "/models/abc").status != 200) ++odd;
      }
      stop = true;
      return;
    }
    while (!stop) {
      const auto reply = invoke(client, "abc");
      if (reply.status == 200 && reply.body == "[2.0, 3.0]") {
        ++answered;
      } else if (reply.status == 404) {
        ++unknown;
      } else {
        ++odd;
        UNSCOPED_INFO(reply.status << " " << reply.body);
      }
    }
  });
  CHECK(odd == 0);
  CHECK(answered + unknown > 0);
  CHECK(it.server->client().get("/models").json()["models"].empty());
  CHECK(it.server->terminate() == 0);
}

TEST_CASE("platform: DELETE during a load ends it; the next load is a new one", "[platform]") {
  Platform it(Models{{"abc", "slowload_short"}});
  auto client = it.server->client();
  unsigned status = 0;
  std::thread loading([&] {
    auto other = it.server->client();
    status = it.load(other, "abc").status;
  });
  REQUIRE(eventually([&] { return !client.get("/status").json()["models"].empty(); }));
  const auto deleted = client.send("DELETE", "/models/abc");
  loading.join();
  CHECK((deleted.status == 200 || deleted.status == 404));
  CHECK((status == 200 || status == 409));
  if (deleted.status == 200) CHECK(client.get("/models/abc").status == 404);
  client.send("DELETE", "/models/abc");
  CHECK(it.load(client, "abc").status == 200);
}

TEST_CASE("platform: the list is paged, each model exactly once", "[platform]") {
  std::map<std::string, std::string> models;
  for (int i = 0; i < 7; ++i) models["hash" + std::to_string(i)] = "echo";
  Platform it(models);
  auto client = it.server->client();
  for (const auto& [hash, stem] : models) CHECK(it.load(client, hash).status == 200);
  std::multiset<std::string> seen;
  int pages = 0;
  std::string target = "/models?limit=3";
  for (; !target.empty() && pages < 10; ++pages) {
    const auto page = client.get(target).json();
    for (const auto& model : page["models"]) seen.insert(model["modelName"]);
    target = page.contains("nextPageToken")
                 ? "/models?limit=3&next_page_token=" + page["nextPageToken"].get<std::string>()
                 : "";
  }
  CHECK(pages == 3);
  CHECK(seen.size() == 7);
  CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 7);
  CHECK(client.get("/models?limit=3&next_page_token=zz").status == 400);
}

TEST_CASE("platform: settings that would unload or load by themselves are refused at start", "[platform]") {
  const auto refused =
      run_program({"serve", "--port", "0", "--set", "cache.idle_unload=1m", "--set", "cache.preload=a"}, kPlatform);
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("cache.idle_unload: the platform unloads models") != std::string::npos);
  CHECK(refused.output.find("cache.preload: the platform loads models") != std::string::npos);
}

TEST_CASE("the container contract's variables set port, folder and listener", "[platform]") {
  const auto shown = run_program({"check"}, {{"SAGEMAKER_MULTI_MODEL", "true"},
                                             {"SAGEMAKER_BIND_TO_PORT", "9123"},
                                             {"SAGEMAKER_BASE_DIR", "/srv/ml"},
                                             {"SAGEMAKER_SAFE_PORT_RANGE", "1000-2000"},
                                             {"SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "application/json"}});
  CHECK(shown.exit_code == 0);
  for (const char* line : {"mode = platform ", "listeners.host = 0.0.0.0 ", "listeners.port = 9123 ",
                           "repository.path = /srv/ml/models ", "# ignored: SAGEMAKER_SAFE_PORT_RANGE"}) {
    INFO(line);
    CHECK(shown.output.find(line) != std::string::npos);
  }
}

TEST_CASE("single: the one model is loaded at start and /invocations runs it", "[single]") {
  TempDir base;
  install(base.path(), {{"model/model", "add1"}, {"code/other", "echo"}});
  const auto shown = run_program({"check"}, {{"SAGEMAKER_BASE_DIR", base.path().string()}});
  CHECK(shown.output.find("mode = single ") != std::string::npos);
  CHECK(shown.output.find("repository.path = " + base.path().string()) != std::string::npos);
  ServerProcess server(base.path(), {"--set", "mode=single"});
  auto client = server.client();
  CHECK(eventually([&] { return client.get("/ping").status == 200; }));
  CHECK(client.get("/models/model").status == 200);  // before anybody called it
  CHECK(client.send("POST", "/invocations", "[1, 2]", {{"Content-Type", "application/json"}}).body == "[2.0, 3.0]");
  CHECK(client.send("POST", "/invocations?model_name=code", "[1]").body == "[1.0]");
  CHECK(server.metric("mme_model_loads_total{model=\"model\"}") == 1);
}

TEST_CASE("G2: health is told by the status, never by a 200 with bad words", "[single]") {
  TempDir base;
  install(base.path(), {{"model/model", "rand"}, {"m", "echo"}});
  SECTION("mode single: a model that cannot be loaded keeps /ping red") {
    ServerProcess server(base.path(), {"--set", "mode=single"});
    auto client = server.client();
    CHECK(eventually([&] { return server.log().find("preload_failed") != std::string::npos; }));
    const auto ping = client.get("/ping");
    CHECK(ping.status == 503);
    CHECK(ping.header("X-MME-Reason") == "not_ready");
    CHECK(client.get("/v2/health/ready").status == 503);
    CHECK(client.get("/v2/health/live").status == 200);
    CHECK(client.send("POST", "/invocations", "[1]").status == 422);
  }
  SECTION("self managed: not ready, and others are served") {
    ServerProcess server(base.path(), {"--set", "cache.preload=model"});
    auto client = server.client();
    CHECK(eventually([&] { return server.log().find("preload_failed") != std::string::npos; }));
    CHECK(client.get("/v2/health/ready").status == 503);
    CHECK(client.get("/ping").status == 200);
    CHECK(infer(client, "m").status == 200);
  }
}

TEST_CASE("G29: a start with a preload of ten loads each once and evicts none", "[preload]") {
  TempDir repository;
  std::map<std::string, std::string> models;
  std::string names;
  for (int i = 0; i < 10; ++i) {
    models["m" + std::to_string(i)] = "echo";
    names += (i == 0 ? "m" : ",m") + std::to_string(i);
  }
  install(repository.path(), models);
  ServerProcess server(repository.path(), {"--set", "cache.preload=" + names});
  auto client = server.client();
  CHECK(eventually([&] { return client.get("/v2/health/ready").status == 200; }));
  CHECK(client.get("/models").json()["models"].size() == 10);
  CHECK(server.metric_sum("mme_model_loads_total") == 10);
  CHECK(server.metric_sum("mme_cache_evictions_total") == 0);
}

TEST_CASE("G10: counters never go back when a model leaves and comes again", "[metrics]") {
  TempDir repository;
  install(repository.path(), {{"m", "echo"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  double requests = 0;
  double loads = 0;
  for (int round = 0; round < 5; ++round) {
    CHECK(infer(client, "m").status == 200);
    // A request is counted when its reply is sent, which its client may know first.
    CHECK(eventually([&] { return server.metric_sum("mme_requests_total") > requests; }));
    const double requests_now = server.metric_sum("mme_requests_total");
    const double loads_now = server.metric("mme_model_loads_total{model=\"m\"}");
    CHECK(requests_now > requests);
    CHECK(loads_now == loads + 1);
    requests = requests_now;
    loads = loads_now;
    CHECK(client.send("DELETE", "/models/m").status == 200);
  }
}

TEST_CASE("G8: unknown names share one series, however many there are", "[metrics]") {
  TempDir repository;
  install(repository.path(), {{"m", "echo"}});
  ServerProcess server(repository.path(), {"--set", "log.level=info"});
  auto client = server.client();
  CHECK(infer(client, "m").status == 200);
  CHECK(infer(client, "first").status == 404);
  const auto lines = [&] {
    const auto text = client.get("/metrics").body;
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto before = lines();
  const int names = std::getenv("MME_LONG") != nullptr ? 200'000 : 2'000;
  for (int i = 0; i < names; ++i) CHECK(infer(client, "nobody" + std::to_string(i)).status == 404);
  CHECK(lines() <= before + 2);  // a scrape may have made series of its own
  CHECK(client.get("/metrics").body.size() < kMiB);
}

TEST_CASE("G30: serving goes on from a folder that cannot be written to", "[disk]") {
  TempDir repository;
  install(repository.path(), {{"m", "echo"}, {"n", "echo"}});
  std::filesystem::permissions(repository.path(), std::filesystem::perms(0555));
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(infer(client, "m").status == 200);
  CHECK(client.send("DELETE", "/models/m").status == 200);
  CHECK(infer(client, "n").status == 200);
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(repository.path())) {
    left.insert(std::filesystem::relative(entry.path(), repository.path()).string());
  }
  for (const char* state : {".mme", ".mme/learned"}) left.erase(state);  // root may write, but only there
  CHECK(left == std::set<std::string>{"m.pt", "n.pt"});
  std::filesystem::permissions(repository.path(), std::filesystem::perms(0755));
}
