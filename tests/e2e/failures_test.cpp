// Loads that fail, take too long or are given up: what they leave behind, and what the next caller gets.
#include "tests/e2e/scenario.hpp"
#include "tests/support/raw_http_client.hpp"

using namespace mme::test;

namespace {

/// A copy of a model whose archive ends in other bytes.
void damage(const std::filesystem::path& repository, const std::string& name, const std::string& stem) {
  const auto beside = repository / (name + ".part");
  std::filesystem::copy_file(test_models() / (stem + ".pt"), beside);
  {
    std::fstream file(beside, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-20, std::ios::end);
    file.write("damaged!", 8);
  }
  std::filesystem::rename(beside, repository / (name + ".pt"));
}

double load_failures(const ServerProcess& server) {
  return server.metric_sum("mme_model_load_failures_total");
}

}  // namespace

TEST_CASE("C1: a load that failed leaves nothing in the way of a good file of that name", "[failures]") {
  TempDir repository;
  upload(repository.path(), "m", "trunc");
  ServerProcess server(repository.path());
  auto client = server.client();
  const auto failed = load(client, "m");
  CHECK(failed.status == 422);
  CHECK(failed.header("X-MME-Reason") == "model_broken");
  CHECK_FALSE(failed.json().value("message", "").empty());
  upload(repository.path(), "m", "echo");
  CHECK(load(client, "m").status == 200);
  CHECK(infer(client, "m").status == 200);
}

TEST_CASE("C3: a file that cannot be loaded is not tried again by every request", "[failures]") {
  TempDir repository;
  upload(repository.path(), "m", "trunc");
  ServerProcess server(repository.path());
  const auto began = Clock::now();
  std::atomic<int> same{0};
  std::string first;
  {
    auto client = server.client();
    first = infer(client, "m").body;
  }
  together(10, [&](int) {
    auto client = server.client();
    for (int n = 0; n < rounds(20, 100); ++n) {
      const auto response = infer(client, "m");
      if (response.status == 422 && response.body == first) ++same;
    }
  });
  CHECK(same == 10 * rounds(20, 100));
  const double windows = std::chrono::duration<double>(Clock::now() - began).count() / 10;
  CHECK(load_failures(server) <= 1 + windows);
  upload(repository.path(), "m", "echo");
  auto client = server.client();
  CHECK(eventually([&] { return infer(client, "m").status == 200; }));
}

TEST_CASE("C5: a load that fails gives its memory back before it is tried again", "[failures]") {
  TempDir repository;
  damage(repository.path(), "archive", "big64");
  install(repository.path(), {{"late", "growfail32"}, {"big", "big64"}, {"echo", "echo"}});
  ServerProcess server(repository.path(), room_for(75 * kMiB));
  auto client = server.client();
  REQUIRE(infer(client, "echo").status == 200);
  REQUIRE(unload(client, "echo").status == 200);
  const std::size_t base = server.rss_bytes();
  for (int n = 0; n < rounds(5, 20); ++n) {
    for (const char* name : {"late", "archive"}) {
      const auto response = load(client, name);
      INFO(name << " " << response.body);
      REQUIRE(response.status == 422);
      REQUIRE(server.metric_sum("mme_memory_bytes") == 0);
      if (!kSanitized) REQUIRE(server.rss_bytes() < base + 24 * kMiB);
    }
  }
  CHECK(load(client, "big").status == 200);
  CHECK(infer(client, "big").status == 200);
}

TEST_CASE("B1: 64 clients released at once on a model that loads slowly cause one load", "[failures]") {
  TempDir repository;
  install(repository.path(), {{"m", "slowload_short"}});
  ServerProcess server(repository.path());
  std::atomic<int> answered{0};
  together(64, [&](int) {
    auto client = server.client();
    if (infer(client, "m").status == 200) ++answered;
  });
  CHECK(answered == 64);
  CHECK(loads_of(server, "m") == 1);
  CHECK(server.metric("mme_cache_misses_total") == 1);
}

TEST_CASE("B17: a load goes on when its callers have lost patience, so that the model gets warm", "[failures]") {
  TempDir repository;
  install(repository.path(), {{"m", "slowload_short"}});
  ServerProcess server(repository.path());
  auto control = server.client();
  const std::string body = two_floats().dump();
  for (int n = 0; n < 5; ++n) {
    RawHttpClient client(server.port());
    REQUIRE(
        client.send("POST /v2/models/m/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                    "Content-Length: " +
                    std::to_string(body.size()) + "\r\n\r\n" + body));
    REQUIRE(eventually([&] {
      const auto status = control.get("/status").json();
      return !status["models"].empty() && status["models"][0].value("stage", "") != "estimating";
    }));
    std::this_thread::sleep_for(50ms);
    client.close();
  }
  auto client = server.client();
  CHECK(infer(client, "m").status == 200);
  CHECK(loads_of(server, "m") == 1);
  CHECK(load_failures(server) == 0);
}

TEST_CASE("B18: the time that callers wait for a load is a setting; the load goes on", "[failures]") {
  TempDir repository;
  install(repository.path(), {{"m", "slowload_short"}});
  {
    ServerProcess server(repository.path(), set({"cache.load_timeout=50ms"}));
    auto client = server.client();
    const auto response = infer(client, "m");
    CHECK(response.status == 504);
    CHECK(response.header("X-MME-Reason") == "load_timeout");
    CHECK(eventually([&] { return server.metric("mme_memory_bytes{kind=\"loading\"}") == 0; }));
    CHECK(server.metric("mme_memory_bytes{kind=\"activations\"}") == 0);
    CHECK(server.metric("mme_memory_bytes{kind=\"bodies\"}") == 0);
  }
  ServerProcess server(repository.path(), set({"cache.load_timeout=60s"}));
  auto client = server.client();
  CHECK(infer(client, "m").status == 200);
}
