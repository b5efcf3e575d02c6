// Work that never ends: it costs its own model, and nobody else for long (R15); health says what stands still.
#include "tests/e2e/scenario.hpp"

using namespace mme::test;

namespace {

/// Threads of the server with that name.
int threads_named(const ServerProcess& server, const std::string& name) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(server.pid()) + "/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    count += comm == name ? 1 : 0;
  }
  return count;
}

unsigned ready(HttpClient& client) {
  return client.get("/v2/health/ready").status;
}

Response infer_within(HttpClient& client, const std::string& model, int milliseconds) {
  return client.send("POST", "/v2/models/" + model + "/infer", two_floats().dump(),
                     {{"Content-Type", "application/json"}, {"X-Request-Timeout-Ms", std::to_string(milliseconds)}});
}

}  // namespace

TEST_CASE("G27: an endless call on every compute thread costs its callers 504 and its models, not the others",
          "[stuck]") {
  TempDir repository;
  install(repository.path(), {{"loop0", "loop"}, {"loop1", "loop"}, {"echo", "echo"}});
  ServerProcess server(repository.path(), set({"threads.compute=2"}));
  auto control = server.client();
  REQUIRE(infer(control, "echo").status == 200);
  REQUIRE(load(control, "loop0").status == 200);
  REQUIRE(load(control, "loop1").status == 200);
  const auto began = Clock::now();
  together(2, [&](int i) {
    auto client = server.client();
    const auto response = infer_within(client, "loop" + std::to_string(i), 1000);
    if (response.status != 504 || response.header("X-MME-Reason") != "deadline_exceeded") {
      throw std::runtime_error(std::to_string(response.status) + " " + response.body);
    }
  });
  CHECK(Clock::now() - began >= 1s);
  // Nothing can run until the threads are written off, 5 s past the deadline; what waits then runs.
  CHECK(infer(control, "echo").status == 200);
  CHECK(Clock::now() - began < 40s);
  REQUIRE(eventually([&] { return server.metric("mme_stuck{work=\"call\"}") == 2; }));
  for (const std::string name : {"loop0", "loop1"}) {
    const auto response = infer(control, name);
    CHECK(response.status == 503);
    CHECK(response.header("X-MME-Reason") == "quarantined");
    CHECK_FALSE(response.header("Retry-After").empty());
    REQUIRE(events(server, "quarantined", name).size() == 1);
    CHECK(events(server, "quarantined", name).front()["work"] == "call");
  }
  CHECK(server.metric("mme_quarantined_total{work=\"call\"}") == 2);
  CHECK(server.metric("mme_stuck{work=\"load\"}") == 0);
  CHECK(eventually([&] { return threads_named(server, "mme-compute") == 4; }));
  for (int i = 0; i < 20; ++i) CHECK(infer(control, "echo").status == 200);
  CHECK(ready(control) == 200);
  const auto end = Clock::now();
  CHECK(server.terminate() == 0);
  CHECK(Clock::now() - end < 25s);
}

TEST_CASE("G27: a call that was written off and ends after all gives back its model and its thread", "[stuck]") {
  TempDir repository;
  install(repository.path(), {{"spin", "spin32"}});
  ServerProcess server(repository.path(), set({"threads.compute=1"}));
  auto client = server.client();
  REQUIRE(infer(client, "spin", spin(1)).status == 200);
  // How many products take 10 s of a core: well beyond deadline and patience together, and however busy the machine is
  // now or then, no less than that.
  const double before = cpu_seconds(server.pid());
  REQUIRE(infer(client, "spin", spin(1000)).status == 200);
  const int products = static_cast<int>(1000 * 10 / (cpu_seconds(server.pid()) - before));
  CHECK(client
            .send("POST", "/v2/models/spin/infer", spin(products).dump(),
                  {{"Content-Type", "application/json"}, {"X-Request-Timeout-Ms", "100"}})
            .status == 504);
  REQUIRE(eventually([&] { return server.metric("mme_stuck{work=\"call\"}") == 1; }));
  CHECK(infer(client, "spin", spin(1)).status == 503);
  REQUIRE(eventually([&] { return server.metric("mme_stuck{work=\"call\"}") == 0; }));
  CHECK(infer(client, "spin", spin(1)).status == 200);
  CHECK(eventually([&] { return threads_named(server, "mme-compute") == 1; }));
  CHECK(events(server, "recovered", "spin").size() == 1);
  CHECK(server.metric("mme_quarantined_total{work=\"call\"}") == 1);
}

TEST_CASE("a load that never ends turns readiness off, is replaced, and does not keep the process", "[stuck]") {
  TempDir repository;
  install(repository.path(), {{"wedge0", "loopload"}, {"wedge1", "loopload"}, {"echo", "echo"}, {"cold", "add1"}});
  ServerProcess server(repository.path(), set({"threads.loader=1", "cache.room_wait=500ms", "cache.load_timeout=1s"}));
  auto client = server.client();
  REQUIRE(infer(client, "echo").status == 200);
  REQUIRE(ready(client) == 200);
  // The caller is gone after 200 ms. That nobody waits any more does not make the loader move.
  CHECK(infer_within(client, "wedge0", 200).status == 504);
  CHECK(eventually([&] { return ready(client) == 503; }));
  CHECK(client.get("/v2/health/live").status == 200);
  CHECK(client.get("/ping").status == 200);
  CHECK(infer(client, "echo").status == 200);
  // 5 s past its time the thread is written off and replaced: cold models are loaded again.
  REQUIRE(eventually([&] { return server.metric("mme_stuck{work=\"load\"}") == 1; }));
  CHECK(infer(client, "cold").status == 200);
  CHECK(eventually([&] { return ready(client) == 200; }));
  CHECK(infer(client, "wedge0").header("X-MME-Reason") == "quarantined");
  REQUIRE(events(server, "quarantined", "wedge0").size() == 1);
  CHECK(events(server, "quarantined", "wedge0").front()["work"] == "load");
  CHECK(eventually([&] { return threads_named(server, "mme-load") == 2; }));
  // There is one replacement for the one thread, no second: the next stuck load is not recovered from, and health says
  // so.
  CHECK(infer_within(client, "wedge1", 200).status == 504);
  CHECK(eventually([&] { return ready(client) == 503; }));
  CHECK(infer(client, "cold").status == 200);
  CHECK(server.metric("mme_stuck{work=\"load\"}") == 1);
  const auto end = Clock::now();
  CHECK(server.terminate() == 0);
  CHECK(Clock::now() - end < 25s);
}

TEST_CASE("a call and a load that never end, and are not written off yet, do not keep the process", "[stuck]") {
  TempDir repository;
  install(repository.path(), {{"wedge", "loopload"}, {"loop", "loop"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(infer_within(client, "wedge", 200).status == 504);
  REQUIRE(load(client, "loop").status == 200);
  CHECK(infer_within(client, "loop", 200).status == 504);
  const auto end = Clock::now();
  CHECK(server.terminate() == 0);
  CHECK(Clock::now() - end < 25s);
}
