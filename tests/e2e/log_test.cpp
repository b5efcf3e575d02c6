// What the log says of loads, evictions, refusals and requests: one line each, of one form.
#include "tests/e2e/scenario.hpp"

using namespace mme::test;

TEST_CASE("every line of the log is one JSON object with time, level and event", "[log]") {
  TempDir repository;
  install(repository.path(),
          {{"a", "big32_0"}, {"b", "big32_1"}, {"bad", "trunc"}, {"huge", "big64"}, {"print", "print"}});
  ServerProcess server(repository.path(), room_for(34 * kMiB));
  auto client = server.client();
  CHECK(infer(client, "a").status == 200);
  CHECK(infer(client, "b").status == 200);
  CHECK(infer(client, "bad").status == 422);
  CHECK(infer(client, "huge").status == 507);
  CHECK(infer(client, "print").status == 200);
  CHECK(infer(client, "nobody").status == 404);
  CHECK(client.send("POST", "/v2/models/a%22%0a/infer", "{\"a\":\x01").status == 400);
  CHECK(server.terminate() == 0);

  std::istringstream lines(server.log());
  for (std::string line; std::getline(lines, line);) {
    const auto json = Json::parse(line, nullptr, false);
    INFO(line);
    REQUIRE(json.is_object());
    CHECK(json.value("time", "").ends_with("Z"));
    CHECK_FALSE(json.value("event", "").empty());
    const std::string level = json.value("level", "");
    CHECK((level == "access" || level == "info" || level == "warning" || level == "error"));
  }
  REQUIRE(events(server, "loaded", "a").size() == 1);
  CHECK(events(server, "loaded", "a").front()["bytes"] >= 32 * kMiB);
  CHECK(events(server, "loaded", "a").front().contains("ms"));
  REQUIRE(events(server, "evicted", "a").size() == 1);
  CHECK(events(server, "evicted", "a").front()["reason"] == "room");
  CHECK(events(server, "evicted", "a").front()["for"] == "b");
  REQUIRE(events(server, "load_failed", "bad").size() == 1);
  CHECK(events(server, "load_failed", "bad").front()["reason"] == "model_broken");
  REQUIRE(events(server, "refused", "huge").size() == 1);
  CHECK(events(server, "refused", "huge").front()["reason"] == "cannot_fit");
  const auto requests = events(server, "request", "a");
  REQUIRE(requests.size() == 1);
  CHECK(requests.front()["level"] == "access");
  CHECK(requests.front()["status"] == 200);
  CHECK(requests.front()["cache"] == "miss");
  CHECK(events(server, "request").size() == 7);
}
