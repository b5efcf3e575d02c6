// Models that are unloaded, loaded twice or left idle while calls arrive: whoever was let in is answered.
#include <random>
#include <set>

#include "tests/e2e/scenario.hpp"

using namespace mme::test;

namespace {

std::set<std::string> listed(HttpClient& client) {
  std::set<std::string> names;
  const Json reply = client.get("/models").json();
  for (const auto& model : reply["models"]) names.insert(model["modelName"]);
  return names;
}

std::set<std::string> ready_by_status(HttpClient& client) {
  std::set<std::string> names;
  const Json reply = client.get("/status").json();
  for (const auto& model : reply["models"]) {
    if (model["state"] == "ready") names.insert(model["name"]);
  }
  return names;
}

}  // namespace

TEST_CASE("C7, C6: a second load of a model is 409, and of fifty at once one is 200", "[unload]") {
  TempDir repository;
  install(repository.path(), {{"echo", "echo"}, {"m", "slowload_short"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(load(client, "echo").status == 200);
  const auto again = load(client, "echo");
  CHECK(again.status == 409);
  CHECK(again.header("X-MME-Reason") == "already_loaded");
  CHECK_FALSE(again.json().value("message", "").empty());
  std::atomic<int> first{0};
  std::atomic<int> late{0};
  together(50, [&](int) {
    auto caller = server.client();
    const auto response = load(caller, "m");
    if (response.status == 200) ++first;
    if (response.status == 409 && !response.json().value("message", "").empty()) ++late;
  });
  CHECK(first == 1);
  CHECK(late == 49);
  CHECK(loads_of(server, "m") == 1);
}

TEST_CASE("C21: a model that is unloaded while a call runs is draining until the call ends", "[unload]") {
  TempDir repository;
  install(repository.path(), {{"m", "spin32"}});
  ServerProcess server(repository.path(), set({"threads.compute=2"}));
  auto control = server.client();
  REQUIRE(infer(control, "m", spin(1)).status == 200);
  std::atomic<unsigned> called{0};
  unsigned unloaded = 0;
  together(2, [&](int i) {
    auto client = server.client();
    if (i == 0) {
      called = infer(client, "m", spin(2000)).status;
      return;
    }
    while (client.get("/status").json()["models"][0]["running"] == 0 && called == 0) std::this_thread::sleep_for(1ms);
    std::thread unloading([&] {
      auto other = server.client();
      unloaded = unload(other, "m").status;
    });
    CHECK(eventually([&] { return server.metric("mme_memory_bytes{kind=\"draining\"}") > 32.0 * kMiB; }));
    CHECK(called == 0);
    CHECK(server.metric("mme_memory_bytes{kind=\"weights\"}") == 0);
    CHECK(listed(client).empty());
    unloading.join();
  });
  CHECK(called == 200);
  CHECK(unloaded == 200);
  CHECK(server.metric_sum("mme_memory_bytes") == 0);
}

TEST_CASE("B14: unload and load beside sixteen clients: running calls finish, later ones load again", "[unload]") {
  TempDir repository;
  install(repository.path(), {{"m", "spin32"}});
  ServerProcess server(repository.path(), set({"threads.compute=4"}));
  const auto until = Clock::now() + (long_run() ? 600s : 3s);
  std::atomic<int> right{0};
  std::atomic<int> wrong{0};
  together(17, [&](int i) {
    auto client = server.client();
    while (Clock::now() < until) {
      if (i == 16) {
        const auto gone = unload(client, "m").status;
        const auto back = load(client, "m").status;
        if ((gone != 200 && gone != 404) || (back != 200 && back != 409)) {
          ++wrong;
          UNSCOPED_INFO("unload " << gone << ", load " << back);
        }
        std::this_thread::sleep_for(100ms);
        continue;
      }
      const auto response = infer(client, "m", spin(20));
      if (response.status == 200) {
        ++right;
      } else if (response.status != 409 && !declared(response.status)) {  // 409: unloaded while it waited for the load
        ++wrong;
        UNSCOPED_INFO(response.status << " " << response.body);
      }
    }
  });
  CHECK(wrong == 0);
  CHECK(right > 0);
  CHECK(server.terminate() == 0);
}

TEST_CASE("B15: load and unload of one model at the same instant end in one of the two, and all agree in which",
          "[unload]") {
  TempDir repository;
  install(repository.path(), {{"m", "echo"}});
  ServerProcess server(repository.path());
  auto first = server.client();
  auto second = server.client();
  for (int n = 0; n < rounds(100, 1000); ++n) {
    unsigned loaded = 0;
    unsigned unloaded = 0;
    together(2, [&](int i) {
      if ((i + n) % 2 == 0) {
        loaded = load(first, "m").status;
      } else {
        unloaded = unload(second, "m").status;
      }
    });
    INFO("round " << n << ": load " << loaded << ", unload " << unloaded);
    REQUIRE((loaded == 200 || loaded == 409));
    REQUIRE((unloaded == 200 || unloaded == 404));
    const auto models = listed(first);
    REQUIRE(models == ready_by_status(second));
    // Whatever the order, nothing that was answered is undone later: the next call sees what both lists say.
    REQUIRE(load(first, "m").status == (models.empty() ? 200 : 409));
    if (n % 3 == 0) REQUIRE(unload(second, "m").status == 200);
  }
  CHECK(server.terminate() == 0);
}

TEST_CASE("B9: without an idle limit a model stays, and the status says how long it is idle", "[unload]") {
  TempDir repository;
  install(repository.path(), {{"m", "echo"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  REQUIRE(infer(client, "m").status == 200);
  std::this_thread::sleep_for(300ms);
  const auto model = client.get("/status").json()["models"][0];
  CHECK(model["name"] == "m");
  CHECK(model["state"] == "ready");
  CHECK(model["idle_seconds"] >= 0.3);
}

TEST_CASE("B4: idle time counts from the end of a call, not from its start", "[unload]") {
  TempDir repository;
  install(repository.path(), {{"m", "spin32"}});
  ServerProcess server(repository.path(), set({"cache.idle_unload=2s"}));
  auto client = server.client();
  REQUIRE(infer(client, "m", spin(1)).status == 200);
  auto began = Clock::now();
  REQUIRE(infer(client, "m", spin(200)).status == 200);
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  // Longer than the idle limit, whatever the machine.
  double took = 0;
  for (int products = static_cast<int>(200 * 3 / seconds); took < 2.5; products *= 2) {
    began = Clock::now();
    REQUIRE(infer(client, "m", spin(products)).status == 200);
    took = std::chrono::duration<double>(Clock::now() - began).count();
  }
  CHECK(infer(client, "m", spin(1)).status == 200);
  CHECK(loads_of(server, "m") == 1);
  CHECK(eventually([&] { return listed(client).empty(); }));
  CHECK(server.metric("mme_cache_evictions_total{reason=\"idle\"}") == 1);
  REQUIRE(events(server, "evicted", "m").size() == 1);
  CHECK(events(server, "evicted", "m").front()["reason"] == "idle");
}

TEST_CASE("a call that comes in the millisecond in which its model goes for idleness is answered", "[unload]") {
  constexpr int kModels = 4;
  TempDir repository;
  std::map<std::string, std::string> models;
  for (int i = 0; i < kModels; ++i) models["m" + std::to_string(i)] = "echo";
  install(repository.path(), models);
  ServerProcess server(repository.path(), set({"cache.idle_unload=20ms"}));
  std::atomic<int> answered{0};
  const int calls = rounds(200, 2000) / kModels;
  together(kModels, [&](int i) {
    auto client = server.client();
    std::mt19937 engine(static_cast<unsigned>(i));
    // The limit is looked at every 20 ms: models go 20 to 40 ms after their call.
    std::uniform_int_distribution<int> pause(18'000, 42'000);
    for (int n = 0; n < calls; ++n) {
      std::this_thread::sleep_for(std::chrono::microseconds(pause(engine)));
      const auto response = infer(client, "m" + std::to_string(i));
      if (response.status == 200) ++answered;
      if (response.status != 200) UNSCOPED_INFO(response.status << " " << response.body);
    }
  });
  CHECK(answered == calls * kModels);
  CHECK(server.metric("mme_cache_evictions_total{reason=\"idle\"}") > calls / 4);
}
