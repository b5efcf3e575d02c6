// What the server learned of models is there again after a restart, and new versions that are much bigger are told.
#include <signal.h>

#include "tests/e2e/scenario.hpp"

using namespace mme::test;

namespace {

namespace fs = std::filesystem;

/// What its last load claimed.
std::size_t claimed(const ServerProcess& server, const std::string& model) {
  const auto started = events(server, "load_started", model);
  REQUIRE_FALSE(started.empty());
  return started.back()["estimated_bytes"];
}

/// What its last load took.
std::size_t took(const ServerProcess& server, const std::string& model) {
  const auto loaded = events(server, "loaded", model);
  REQUIRE_FALSE(loaded.empty());
  return loaded.back()["bytes"];
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> room(std::vector<std::string> arguments = {}) {
  auto all = room_for(200 * kMiB);
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

}  // namespace

TEST_CASE("After a restart the first load of a model claims what it took before, under any name", "[learned]") {
  TempDir repository;
  install(repository.path(), {{"m", "grow32"}});  // a file of 1 KB that takes 32 MiB
  std::size_t bytes = 0;
  {
    ServerProcess server(repository.path(), room());
    auto client = server.client();
    REQUIRE(infer(client, "m").status == 200);
    CHECK(claimed(server, "m") < kMiB);
    bytes = took(server, "m");
    CHECK(bytes > 32 * kMiB);
    CHECK(server.terminate() == 0);
  }
  fs::create_directory(repository.path() / "renamed");
  fs::rename(repository.path() / "m.pt", repository.path() / "renamed" / "model.pt");
  ServerProcess server(repository.path(), room());
  auto client = server.client();
  REQUIRE(infer(client, "renamed").status == 200);
  CHECK(claimed(server, "renamed") >= bytes);
  CHECK(claimed(server, "renamed") < 3 * bytes);
  // Nobody is shown where it is kept.
  CHECK(client.get("/repository/models").body.find("learned") == std::string::npos);
  CHECK(client.send("POST", "/v2/repository/index", "{}").body.find(".mme") == std::string::npos);
  CHECK(infer(client, ".mme").status == 400);
  CHECK(server.metric_sum("mme_size_drift_total") == 0);
  CHECK(server.metric_sum("mme_model_growth_total") == 0);
  CHECK(server.terminate() == 0);
}

TEST_CASE("A server that is killed leaves what it had learned some seconds before", "[learned]") {
  TempDir repository;
  install(repository.path(), {{"m", "grow32"}});
  {
    ServerProcess server(repository.path(), room());
    auto client = server.client();
    REQUIRE(infer(client, "m").status == 200);
    REQUIRE(eventually([&] { return fs::exists(repository.path() / ".mme" / "learned"); }));
    kill(server.pid(), SIGKILL);
    CHECK(eventually([&] { return !server.running(); }));
  }
  ServerProcess server(repository.path(), room());
  auto client = server.client();
  REQUIRE(infer(client, "m").status == 200);
  CHECK(claimed(server, "m") > 32 * kMiB);
}

TEST_CASE("Where nothing can be written the server says so once and serves", "[learned]") {
  TempDir repository;
  install(repository.path(), {{"m", "grow32"}});
  fs::create_directory_symlink("/proc/sys", repository.path() / ".mme");  // read-only for root, too
  for (int start = 0; start < 2; ++start) {
    ServerProcess server(repository.path(), room());
    auto client = server.client();
    REQUIRE(infer(client, "m").status == 200);
    CHECK(claimed(server, "m") < kMiB);
    CHECK(server.terminate() == 0);
    REQUIRE(events(server, "state_off").size() == 1);
    CHECK(events(server, "state_off").front()["level"] == "info");
  }
}

TEST_CASE("A state file that is none is thrown away with one line, and replaced", "[learned]") {
  TempDir repository;
  install(repository.path(), {{"m", "grow32"}});
  const auto file = repository.path() / ".mme" / "learned";
  fs::create_directory(repository.path() / ".mme");
  std::ofstream(file) << "mme learned 1\nn m ffff:18446744073709551616\nend 00000000\n";
  {
    ServerProcess server(repository.path(), room());
    auto client = server.client();
    CHECK(events(server, "state_discarded").size() == 1);
    REQUIRE(infer(client, "m").status == 200);
    CHECK(server.terminate() == 0);
  }
  const std::string text = text_of(file);
  CHECK(text.starts_with("mme learned 1\na "));
  ServerProcess server(repository.path(), room());
  CHECK(events(server, "state_discarded").empty());
  CHECK(server.terminate() == 0);
  CHECK(text_of(file) == text);  // nothing was learned, so nothing was written
}

TEST_CASE("--state says where what is learned is kept, or that it is not", "[learned]") {
  TempDir repository;
  TempDir elsewhere;
  install(repository.path(), {{"m", "grow32"}});
  const auto claimed_with = [&](const std::string& state) {
    ServerProcess server(repository.path(), room({"--state", state}));
    auto client = server.client();
    REQUIRE(infer(client, "m").status == 200);
    const std::size_t bytes = claimed(server, "m");
    CHECK(server.terminate() == 0);
    return bytes;
  };
  CHECK(claimed_with("off") < kMiB);
  const auto folder = elsewhere.path() / "state";
  CHECK(claimed_with(folder.string()) < kMiB);
  CHECK(claimed_with(folder.string()) > 32 * kMiB);
  CHECK(claimed_with("off") < kMiB);
  CHECK(fs::exists(folder / "learned"));
  CHECK_FALSE(fs::exists(repository.path() / ".mme"));
}

TEST_CASE("Two servers on one repository leave one file that a third can read", "[learned]") {
  TempDir repository;
  install(repository.path(), {{"m", "grow32"}, {"n", "echo"}});
  {
    ServerProcess first(repository.path(), room());
    ServerProcess second(repository.path(), room());
    auto one = first.client();
    auto other = second.client();
    REQUIRE(infer(one, "m").status == 200);
    REQUIRE(infer(other, "m").status == 200);
    REQUIRE(infer(other, "n").status == 200);
    kill(first.pid(), SIGTERM);
    CHECK(second.terminate() == 0);
    CHECK(eventually([&] { return !first.running(); }));
  }
  ServerProcess third(repository.path(), room());
  auto client = third.client();
  REQUIRE(infer(client, "m").status == 200);
  CHECK(events(third, "state_discarded").empty());
  CHECK(claimed(third, "m") > 32 * kMiB);
}

TEST_CASE("A version that is much bigger than the one before it is told, in the log and as a metric", "[learned]") {
  TempDir repository;
  install(repository.path(), {{"m", "big1"}, {"v/1/model", "big1"}, {"v/2/model", "big32"}});
  {
    ServerProcess server(repository.path(), room());
    auto client = server.client();
    REQUIRE(infer(client, "m").status == 200);
    const std::size_t before = took(server, "m");
    upload(repository.path(), "m", "big32");
    REQUIRE(infer(client, "m").status == 200);
    REQUIRE(eventually([&] { return loads_of(server, "m") == 2; }));
    const auto told = events(server, "model_grew", "m");
    REQUIRE(told.size() == 1);
    CHECK(told.front()["level"] == "warning");
    CHECK(told.front()["bytes_before"] <= before);
    CHECK(told.front()["bytes_before"] > kMiB);
    // As the model tells it, while the books also know what calls left in code that models share.
    CHECK(told.front()["bytes"] > 32 * kMiB);
    CHECK(told.front()["bytes"] <= took(server, "m"));
    CHECK(server.metric("mme_model_growth_total{model=\"m\"}") == 1);
    REQUIRE(client.post("/v2/models/v/versions/1/infer", two_floats()).status == 200);
    CHECK(events(server, "model_grew", "v").empty());
    CHECK(server.terminate() == 0);
  }
  ServerProcess server(repository.path(), room());  // what the version before took is known from the last process
  auto client = server.client();
  REQUIRE(infer(client, "m").status == 200);
  CHECK(events(server, "model_grew", "m").empty());
  REQUIRE(client.post("/v2/models/v/versions/2/infer", two_floats()).status == 200);
  REQUIRE(events(server, "model_grew", "v").size() == 1);
  CHECK(events(server, "model_grew", "v").front()["version"] == "2");
  CHECK(server.terminate() == 0);
}
