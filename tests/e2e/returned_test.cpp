// Memory comes back: what goes is gone for the kernel too, cycle after cycle and shape after shape.
#include "tests/e2e/memory_watch.hpp"
#include "tests/e2e/scenario.hpp"

using namespace mme::test;

namespace {

void cycle(HttpClient& client, const std::string& model) {
  REQUIRE(load(client, model).status == 200);
  REQUIRE(infer(client, model).status == 200);
  REQUIRE(unload(client, model).status == 200);
}

/// Growth in bytes; less than nothing is nothing.
std::size_t growth(std::size_t from, std::size_t to) {
  return to > from ? to - from : 0;
}

std::size_t anonymous(const ServerProcess& server) {
  return proportional_bytes(server.pid(), "Pss_Anon:");
}

/// Once: what was freed a moment ago is given back within the pause between two trims.
std::size_t settled(const ServerProcess& server) {
  std::this_thread::sleep_for(300ms);
  return server.rss_bytes();
}

}  // namespace

TEST_CASE("A1: load, call, unload, again and again: memory is as before", "[returned]") {
  TempDir repository;
  install(repository.path(), {{"m", "big64"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  const int cycles = rounds(60, 500);
  std::size_t at_20 = 0;
  std::size_t at_100 = 0;
  for (int i = 1; i <= cycles; ++i) {
    cycle(client, "m");
    if (i == 20) at_20 = settled(server);
    if (i == 100) at_100 = settled(server);
  }
  const std::size_t at_end = settled(server);
  WARN("RSS after 20, 100 and " << cycles << " cycles: " << at_20 / kMiB << ", " << at_100 / kMiB << " and "
                                << at_end / kMiB << " MiB");
  if (!kSanitized) CHECK(growth(at_20, at_end) <= 8 * kMiB);
  CHECK(server.metric_sum("mme_memory_bytes") == 0);
}

TEST_CASE("A2: eight models in turn, round after round: memory is as before", "[returned]") {
  TempDir repository;
  std::map<std::string, std::string> models;
  for (int i = 0; i < 8; ++i) models["m" + std::to_string(i)] = "big64_" + std::to_string(i);
  install(repository.path(), models);
  ServerProcess server(repository.path());
  auto client = server.client();
  std::size_t warm = 0;
  const int all = rounds(8, 100);
  for (int round = 1; round <= all; ++round) {
    for (const auto& [name, stem] : models) cycle(client, name);
    if (round == 2) warm = settled(server);
  }
  if (!kSanitized) CHECK(growth(warm, settled(server)) <= 8 * kMiB);
  CHECK(server.metric_sum("mme_memory_bytes") == 0);
}

TEST_CASE("A6: when four models were unloaded, four others fit", "[returned]") {
  TempDir repository;
  std::map<std::string, std::string> models;
  for (int i = 0; i < 8; ++i) models["m" + std::to_string(i)] = "big64_" + std::to_string(i);
  install(repository.path(), models);
  // Platform mode evicts nothing by itself: only what DELETE gave back is free.
  ServerProcess server(repository.path(), room_for(4 * 64 * kMiB + 8 * kMiB, {"mode=platform"}));
  auto client = server.client();
  for (int round = 0; round < 3; ++round) {
    for (int half : {0, 4}) {
      for (int i = half; i < half + 4; ++i) CHECK(load(client, "m" + std::to_string(i)).status == 200);
      CHECK(load(client, "m" + std::to_string((half + 4) % 8)).status == 507);
      for (int i = half; i < half + 4; ++i) CHECK(unload(client, "m" + std::to_string(i)).status == 200);
    }
  }
}

TEST_CASE("A8: a new shape in every call: memory grows little at first and not the second time", "[returned]") {
  TempDir repository;
  install(repository.path(), {{"m", "mlp"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  const auto pass = [&] {
    for (long rows = 1; rows <= (long_run() ? 2000 : 400); rows += long_run() ? 1 : 5) {
      std::vector<float> data(static_cast<std::size_t>(rows * 64), 0.5F);
      const Json request{{"inputs", {tensor("x", {rows, 64}, "FP32", std::move(data))}}};
      REQUIRE(infer(client, "m", request).status == 200);
    }
    std::this_thread::sleep_for(300ms);
    return anonymous(server);
  };
  REQUIRE(infer(client, "m", {{"inputs", {tensor("x", {1, 64}, "FP32", std::vector<float>(64))}}}).status == 200);
  const std::size_t before = anonymous(server);
  const std::size_t first = pass();
  const std::size_t second = pass();
  WARN("grew by " << growth(before, first) / 1024 << " KiB, then by " << growth(first, second) / 1024 << " KiB");
  if (!kSanitized) {
    CHECK(growth(before, first) <= 24 * kMiB);
    CHECK(growth(first, second) <= 2 * kMiB);
  }
}

TEST_CASE("A9: a steady load does not creep", "[returned]") {
  TempDir repository;
  std::map<std::string, std::string> models;
  for (int i = 0; i < 8; ++i) models["m" + std::to_string(i)] = i % 2 == 0 ? "mlp" : "big32_" + std::to_string(i);
  install(repository.path(), models);
  ServerProcess server(repository.path());
  const auto began = Clock::now();
  const auto length = long_run() ? 600s : 6s;
  std::vector<std::size_t> samples;  // one each tenth of the time
  together(3, [&](int number) {
    auto client = server.client();
    for (int i = number; Clock::now() - began < length; i += 3) {
      if (number == 0 && Clock::now() - began > length * static_cast<long>(samples.size() + 1) / 10) {
        samples.push_back(anonymous(server));
      }
      const bool mlp = i % 2 == 0;
      std::vector<float> data(64, 1.0F);
      const Json request = mlp ? Json{{"inputs", {tensor("x", {1, 64}, "FP32", std::move(data))}}} : two_floats();
      if (infer(client, "m" + std::to_string(i % 8), request).status != 200) throw std::runtime_error("no answer");
      std::this_thread::sleep_for(2ms);  // about half of what it could do
    }
  });
  REQUIRE(samples.size() >= 8);
  std::string text;
  for (const std::size_t sample : samples) text += std::to_string(sample / 1024) + " ";
  WARN("anonymous KiB over the time: " << text);
  if (!kSanitized) CHECK(growth(samples[2], samples.back()) <= kMiB);
}
