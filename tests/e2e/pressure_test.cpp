// More models than memory: every answer right or a declared refusal, never above the budget.
#include "tests/e2e/memory_watch.hpp"
#include "tests/e2e/scenario.hpp"

using namespace mme::test;

TEST_CASE("B10: 20 twins in turn with room for 5 are answered right and within the budget", "[pressure]") {
  TempDir repository;
  std::map<std::string, std::string> models;
  for (int i = 0; i < 20; ++i) models["twin" + std::to_string(i)] = "big32_" + std::to_string(i);
  install(repository.path(), models);
  // Five of 32 MiB, their objects, and the floor for activations.
  ServerProcess server(repository.path(), {"--memory-budget", std::to_string((5 * 32 + 8 + 32) * kMiB)});
  const auto until = std::chrono::steady_clock::now() + (long_run() ? 600s : 20s);
  std::atomic<int> right{0};
  std::atomic<int> refused{0};
  std::atomic<int> wrong{0};
  MemoryWatch watch(server);
  together(16, [&](int client_number) {
    auto client = server.client();
    for (int i = client_number; std::chrono::steady_clock::now() < until; ++i) {
      const auto response = infer(client, "twin" + std::to_string(i % 20));
      if (response.status == 200 && output(response, "OUTPUT__0")["data"] == Json({2.0, 3.0})) {
        ++right;
      } else if (declared(response.status)) {
        ++refused;
      } else {
        ++wrong;
        UNSCOPED_INFO(response.status << " " << response.body);
      }
    }
  });
  watch.stop();
  CHECK(wrong == 0);
  CHECK(right > 100);
  CHECK(watch.samples() > (kSanitized ? 10 : 100));
  CHECK(watch.kinds() <= server.metric("mme_memory_budget_bytes"));
  CHECK(server.metric_sum("mme_cache_evictions_total") > 0);
  CHECK(server.metric("mme_models{state=\"ready\"}") <= 5);
  // What says how well it goes: found in memory or not, and what a load costs.
  CHECK(server.metric_sum("mme_cache_hits_total") + server.metric_sum("mme_cache_misses_total") +
            server.metric_sum("mme_cache_joined_total") >=
        right);
  CHECK(server.metric_sum("mme_model_load_seconds_count") > 0);
  CHECK(server.terminate() == 0);
}

TEST_CASE("G26: a model that raises hurts nobody, itself included", "[pressure]") {
  TempDir repository;
  install(repository.path(), {{"boom", "boom"}, {"echo", "echo"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  for (int i = 0; i < 100; ++i) {
    const auto response = infer(client, "boom");
    REQUIRE(response.status == 500);
    REQUIRE(response.header("X-MME-Reason") == "inference_failed");
    REQUIRE(response.json()["error"].get<std::string>().find("boom") != std::string::npos);
    REQUIRE(response.body.find("Traceback") == std::string::npos);
  }
  CHECK(infer(client, "echo").status == 200);
}

TEST_CASE("G26: a call that needs more than the budget gets 507, its neighbours their answers", "[pressure]") {
  TempDir repository;
  install(repository.path(), {{"peak", "peak1g"}, {"echo", "echo"}});
  ServerProcess server(repository.path(), {"--memory-budget", "256MiB"});
  std::atomic<int> answered{0};
  together(5, [&](int i) {
    auto client = server.client();
    for (int n = 0; n < 10; ++n) {
      const auto response = infer(client, i == 0 ? "peak" : "echo");
      if (i == 0) {
        if (response.status != 507 || response.header("X-MME-Reason") != "activations") {
          throw std::runtime_error("peak: " + std::to_string(response.status) + " " + response.body);
        }
      } else if (response.status == 200) {
        ++answered;
      }
    }
  });
  CHECK(answered == 40);
  CHECK(server.rss_bytes() < 768 * kMiB);
}

TEST_CASE("a model that can never fit is refused at once and evicts nobody", "[pressure]") {
  TempDir repository;
  install(repository.path(), {{"big", "big256"}, {"echo", "echo"}});
  ServerProcess server(repository.path(), {"--memory-budget", "128MiB"});
  auto client = server.client();
  REQUIRE(infer(client, "echo").status == 200);
  const auto response = infer(client, "big");
  CHECK(response.status == 507);
  CHECK(response.header("X-MME-Reason") == "cannot_fit");
  CHECK(response.header("Retry-After").empty());
  CHECK(server.metric_sum("mme_cache_evictions_total") == 0);
  CHECK(infer(client, "echo").status == 200);
}

TEST_CASE("files that are no models are refused by name and never take the server down", "[pressure]") {
  TempDir repository;
  install(repository.path(),
          {{"zero", "zero"}, {"rand", "rand"}, {"trunc", "trunc"}, {"dict", "statedict"}, {"echo", "echo"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  for (const char* name : {"zero", "rand", "trunc", "dict"}) {
    const auto response = infer(client, name);
    INFO(name << " " << response.body);
    CHECK(response.status == 422);
    CHECK(response.header("X-MME-Reason") == "model_broken");
    CHECK(response.body.find(repository.path().string()) == std::string::npos);
    CHECK(response.body.find("\\n") == std::string::npos);
    CHECK(client.get("/v2/models/" + std::string(name) + "/ready").status == 503);
  }
  CHECK(infer(client, "echo").status == 200);
  CHECK(infer(client, "nobody").status == 404);
  CHECK(server.metric("mme_memory_bytes{kind=\"loading\"}") == 0);
}

TEST_CASE("a stateful model is called one at a time and keeps its count", "[pressure]") {
  TempDir repository;
  install(repository.path(), {{"state", "state"}});
  ServerProcess server(repository.path(), {"--set", "threads.compute=4"});
  together(8, [&](int) {
    auto client = server.client();
    for (int i = 0; i < 25; ++i) {
      if (infer(client, "state").status != 200) throw std::runtime_error("no answer");
    }
  });
  auto client = server.client();
  CHECK(output(infer(client, "state"), "OUTPUT__0")["data"] == Json({201.0}));
}

TEST_CASE("SIGTERM lets running calls answer and exits with 0", "[pressure]") {
  TempDir repository;
  install(repository.path(), {{"slow", "slow"}});
  ServerProcess server(repository.path());
  auto warm = server.client();
  REQUIRE(infer(warm, "slow").status == 200);
  std::atomic<int> answered{0};
  std::atomic<int> sent{0};
  int code = -1;
  together(9, [&](int i) {
    if (i == 8) {
      while (sent < 8) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(50ms);
      code = server.terminate();
      return;
    }
    auto client = server.client();
    client.get("/ping");  // connected before the signal
    ++sent;
    if (infer(client, "slow").status == 200) ++answered;
  });
  CHECK(answered == 8);
  CHECK(code == 0);
}
