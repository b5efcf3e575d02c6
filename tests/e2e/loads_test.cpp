// How often models are loaded and what that costs, over a socket (A10, A12, A19, G28 and the stampede).
#include "tests/e2e/scenario.hpp"

using namespace mme::test;

TEST_CASE("64 clients released at once on a cold model cause exactly one load", "[loads]") {
  TempDir repository;
  install(repository.path(), {{"m", "mlp"}});
  ServerProcess server(repository.path());
  const int rounds = long_run() ? 50 : 10;
  const Json request{{"inputs", {tensor("x", {1, 64}, "FP32", std::vector<float>(64, 1.F))}}};
  auto control = server.client();
  for (int round = 1; round <= rounds; ++round) {
    std::atomic<int> answered{0};
    together(64, [&](int) {
      auto client = server.client();
      if (infer(client, "m", request).status == 200) ++answered;
    });
    CHECK(answered == 64);
    CHECK(loads_of(server, "m") == round);
    CHECK(control.send("DELETE", "/models/m").status == 200);
  }
}

TEST_CASE("A10: a warm model is not loaded again by 1,000 requests of 32 clients", "[loads]") {
  TempDir repository;
  install(repository.path(), {{"m", "echo"}});
  ServerProcess server(repository.path());
  std::atomic<int> answered{0};
  together(32, [&](int i) {
    auto client = server.client();
    const int share = 1'000 / 32 + (i < 1'000 % 32 ? 1 : 0);
    for (int n = 0; n < share; ++n) {
      if (infer(client, "m").status == 200) ++answered;
    }
  });
  CHECK(answered == 1'000);
  CHECK(loads_of(server, "m") == 1);
}

TEST_CASE("A12: 64 parallel calls of a 256 MB model hold one copy of it", "[loads]") {
  TempDir repository;
  install(repository.path(), {{"big", "big256"}, {"echo", "echo"}});
  ServerProcess server(repository.path(), {"--set", "threads.compute=8"});
  auto client = server.client();
  REQUIRE(infer(client, "echo").status == 200);  // libtorch's own first-call memory is not the model's
  const std::size_t before = server.rss_bytes();
  REQUIRE(client.post("/models", {{"model_name", "big"}, {"url", "big.pt"}}).status == 200);
  together(64, [&](int) {
    auto caller = server.client();
    if (infer(caller, "big").status != 200) throw std::runtime_error("no answer");
  });
  const double grown = static_cast<double>(server.rss_bytes() - before) / (1 << 20);
  INFO("grown by " << grown << " MiB");
  CHECK(grown < 256 * 1.1 + 16);
  CHECK(loads_of(server, "big") == 1);
  CHECK(server.metric("mme_models{state=\"ready\"}") == 2);
}

TEST_CASE("A19: a model called now and then stays in memory", "[loads]") {
  TempDir repository;
  install(repository.path(), {{"m", "echo"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  for (int i = 0; i < (long_run() ? 20 : 5); ++i) {
    CHECK(infer(client, "m").status == 200);
    std::this_thread::sleep_for(long_run() ? 30s : 1s);
  }
  CHECK(loads_of(server, "m") == 1);
}

TEST_CASE("G28: a hundred stored models are served without any admin call", "[loads]") {
  TempDir repository;
  std::map<std::string, std::string> models;
  for (int i = 0; i < 100; ++i) models["m" + std::to_string(i)] = i % 2 == 0 ? "ver1" : "ver2";
  install(repository.path(), models);
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(client.get("/models").json()["models"].empty());
  for (int i = 0; i < 100; ++i) {
    const auto response = infer(client, "m" + std::to_string(i));
    CHECK(output(response, "OUTPUT__0")["data"] == Json({i % 2 + 1.0, i % 2 + 1.0}));
  }
  CHECK(server.metric_sum("mme_model_loads_total") == 100);
  CHECK(client.get("/models").json()["models"].size() == 100);
}

TEST_CASE("a model and its versions can be named", "[loads]") {
  TempDir repository;
  install(repository.path(), {{"m/1/model", "ver1"}, {"m/2/model", "ver2"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(output(infer(client, "m"), "OUTPUT__0")["data"] == Json({2.0, 2.0}));
  CHECK(output(infer(client, "m/versions/1"), "OUTPUT__0")["data"] == Json({1.0, 1.0}));
  CHECK(infer(client, "m/versions/1").json()["model_version"] == "1");
  CHECK(infer(client, "m/versions/3").status == 404);
  CHECK(client.get("/v2/models/m").json()["versions"] == Json({"1", "2"}));
}

TEST_CASE("a file that is replaced is noticed", "[loads]") {
  TempDir repository;
  install(repository.path(), {{"m", "ver1"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(output(infer(client, "m"), "OUTPUT__0")["data"] == Json({1.0, 1.0}));
  std::filesystem::copy_file(test_models() / "ver2.pt", repository.path() / "next");
  std::filesystem::rename(repository.path() / "next", repository.path() / "m.pt");
  Json data;
  for (int i = 0; i < 100 && data != Json({2.0, 2.0}); ++i) {
    data = output(infer(client, "m"), "OUTPUT__0")["data"];
    std::this_thread::sleep_for(50ms);
  }
  CHECK(data == Json({2.0, 2.0}));
  std::filesystem::remove(repository.path() / "m.pt");
  CHECK(infer(client, "m").status == 404);
}
