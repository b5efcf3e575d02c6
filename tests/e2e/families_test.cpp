// Fine-tunes of one backbone cost one backbone: what they have in common is held once, and nobody sees it.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>

#include "tests/e2e/memory_watch.hpp"
#include "tests/e2e/scenario.hpp"
#include "tests/models/test_models.hpp"

using namespace mme::test;

namespace {

constexpr std::size_t kBackbone = 8 * kMiB;
constexpr std::size_t kOwn = kMiB / 2;

void write_over(std::string& bytes, float mark, float value) {
  const std::string from(reinterpret_cast<const char*>(&mark), sizeof mark);
  const auto at = bytes.find(from);
  REQUIRE(at != std::string::npos);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::string name_of(int number) {
  return "tuned-" + std::to_string(number);
}

/// Fine-tune number n answers 1004 + 2n to 1. Checksums in the archive stay those of the first: only the bytes differ.
void install_family(const std::filesystem::path& repository, int count) {
  std::ifstream file(test_models() / "tuned.pt", std::ios::binary);
  const std::string tuned{std::istreambuf_iterator<char>(file), {}};
  for (int n = 0; n < count; ++n) {
    std::string bytes = tuned;
    write_over(bytes, mme::models::kLayerMark, static_cast<float>(n));
    write_over(bytes, mme::models::kHeadMark, static_cast<float>(1000 + n));
    std::ofstream(repository / (name_of(n) + ".pt"), std::ios::binary) << bytes;
    make_old(repository / (name_of(n) + ".pt"));
  }
}

bool is_right(const Response& response, int number) {
  return response.status == 200 && output(response, "OUTPUT__0")["data"][0] == Json(1004.0 + 2 * number);
}

Json entry_of(const Json& status, const std::string& name) {
  for (const Json& entry : status["models"]) {
    if (entry["name"] == name) return entry;
  }
  return {};
}

/// Not every file system has the leases without which nothing is mapped, and nothing shared.
bool maps_files(const Json& entry) {
  if (entry["loaded"] == "mapped") return true;
  WARN("not mapped: " << entry.dump());
  return false;
}

}  // namespace

TEST_CASE("fine-tunes of one backbone cost one backbone, and each answers for itself") {
  constexpr int kModels = 12;
  TempDir repository;
  install_family(repository.path(), kModels);
  const std::size_t unique = kBackbone + kModels * kOwn;
  ServerProcess server(repository.path(), room_for(unique + 3 * kMiB));  // one by one they would take 102 MiB
  auto client = server.client();
  for (int i = 0; i < 20; ++i) REQUIRE(is_right(infer(client, name_of(0)), 0));  // libraries have what they need
  const std::size_t with_one = proportional_bytes(server.pid());
  for (int round = 0; round < 2; ++round) {
    for (int n = 0; n < kModels; ++n) REQUIRE(is_right(infer(client, name_of(n)), n));
    if (round == 0 && !maps_files(entry_of(client.get("/status").json(), name_of(0)))) return;
  }
  CHECK(server.metric_sum("mme_cache_evictions_total") == 0);
  CHECK(server.metric_sum("mme_memory_shared_saved_bytes") >= static_cast<double>((kModels - 1) * kBackbone));
  CHECK(server.metric_sum("mme_memory_bytes") <= static_cast<double>(unique + 3 * kMiB));
  if (!kSanitized) CHECK(proportional_bytes(server.pid()) <= with_one + (kModels - 1) * (kOwn + 64 * 1024) + 4 * kMiB);

  const Json all = client.get("/status").json();
  std::size_t saved = 0;
  for (int n = 0; n < kModels; ++n) {
    const Json entry = entry_of(all, name_of(n));
    CHECK(entry["shared_bytes"] >= kBackbone);
    CHECK(entry["unique_bytes"] >= kOwn);
    CHECK(entry["unique_bytes"] <= kOwn + 64 * 1024);
    saved += entry["saved_bytes"].get<std::size_t>();
  }
  CHECK(saved >= (kModels - 1) * kBackbone);

  const double before = server.metric_sum("mme_memory_bytes");
  CHECK(unload(client, name_of(0)).status == 200);  // the one whose file the backbone lies in
  const double after = server.metric_sum("mme_memory_bytes");
  CHECK(before - after >= static_cast<double>(kOwn));
  CHECK(before - after <= static_cast<double>(kOwn + 64 * 1024));
  for (int n = 1; n < kModels; ++n) CHECK(is_right(infer(client, name_of(n)), n));
  CHECK(loads_of(server, name_of(1)) == 1);
  for (int n = 1; n < kModels; ++n) CHECK(unload(client, name_of(n)).status == 200);
  CHECK(eventually([&] { return server.metric_sum("mme_memory_bytes") == 0; }));
}

TEST_CASE(
    "clients over a whole family in little more than its unique bytes get right answers, whoever comes and goes") {
  const int models = rounds(12, 50);
  const int clients = rounds(4, 16);
  TempDir repository;
  install_family(repository.path(), models);
  const std::size_t unique = kBackbone + static_cast<std::size_t>(models) * kOwn;
  ServerProcess server(repository.path(), room_for(unique * 13 / 10, {"threads.loader=2"}));
  std::atomic<int> wrong{0}, right{0}, refused{0}, unloaded{0};
  const auto until = Clock::now() + std::chrono::seconds(rounds(4, 300));
  MemoryWatch watch(server);
  together(clients + 1, [&](int who) {
    std::mt19937 random(static_cast<unsigned>(who));
    auto client = server.client();
    while (Clock::now() < until) {
      const int n = static_cast<int>(random() % static_cast<unsigned>(models));
      if (who == clients) {  // somebody unloads
        static_cast<void>(unload(client, name_of(n)));
        std::this_thread::sleep_for(20ms);
        continue;
      }
      const auto response = infer(client, name_of(n));
      if (is_right(response, n)) {
        ++right;
      } else if (declared(response.status)) {
        ++refused;
      } else if (response.status == 409) {
        ++unloaded;  // while the call waited for its load
      } else {
        ++wrong;
      }
    }
  });
  watch.stop();
  WARN(right << " right, " << refused << " refused, " << unloaded << " unloaded, " << wrong << " wrong; kinds at most "
             << watch.kinds() / kMiB << " of " << static_cast<double>(unique) * 1.3 / kMiB + 4 << " MiB");
  CHECK(wrong == 0);
  CHECK(refused == 0);
  CHECK(right > 100);
  CHECK(watch.kinds() <= static_cast<double>(unique * 13 / 10 + 4 * kMiB));
}

TEST_CASE("models that count their calls hold the backbone with those that only read it, and each counts for itself") {
  constexpr int kModels = 4;
  TempDir repository;
  install_family(repository.path(), kModels);
  for (int n = 0; n < kModels; ++n) install(repository.path(), {{"counting-" + std::to_string(n), "counting"}});
  ServerProcess server(repository.path(), room_for(kBackbone + kModels * kOwn + 3 * kMiB));
  std::array<std::vector<int>, kModels> counts;
  std::mutex mutex;
  std::atomic<int> wrong{0};
  together(4, [&](int who) {
    auto client = server.client();
    for (int i = 0; i < 10 * kModels; ++i) {
      const int n = (i + who) % kModels;
      const Json answer = infer(client, "counting-" + std::to_string(n)).json();
      {
        const std::lock_guard lock(mutex);
        counts.at(static_cast<std::size_t>(n)).push_back(answer["outputs"][0]["data"][0].get<int>() - 4);
      }
      wrong += is_right(infer(client, name_of(n)), n) ? 0 : 1;
    }
  });
  CHECK(wrong == 0);
  for (auto& of_one : counts) {
    std::ranges::sort(of_one);
    std::vector<int> expected(40);
    std::iota(expected.begin(), expected.end(), 1);
    CHECK(of_one == expected);
  }
  auto client = server.client();
  const Json entry = entry_of(client.get("/status").json(), "counting-1");
  if (!maps_files(entry)) return;
  CHECK(entry["loaded_reason"] == "1 weight that it may write to");
  CHECK(entry["shared_bytes"] >= kBackbone);
  CHECK(entry["unique_bytes"] < 128 * 1024);
  CHECK(server.metric_sum("mme_cache_evictions_total") == 0);
}

TEST_CASE("a family under pressure: the least recently used go, and what the others need stays") {
  constexpr int kModels = 12;
  TempDir repository;
  install_family(repository.path(), kModels);
  ServerProcess server(repository.path(), room_for(kBackbone + 6 * kOwn + 2 * kMiB));
  auto client = server.client();
  for (int round = 0; round < 3; ++round) {
    for (int n = 0; n < kModels; ++n) REQUIRE(is_right(infer(client, name_of(n)), n));
  }
  if (!maps_files(entry_of(client.get("/status").json(), name_of(kModels - 1)))) return;
  CHECK(server.metric_sum("mme_cache_evictions_total") >= kModels);
  CHECK(server.metric_sum("mme_models") >= 6);
  CHECK(server.metric_sum("mme_cache_refusals_total") == 0);
}

TEST_CASE("a family and a large stranger take turns: nobody waits for room that a waiting one keeps") {
  constexpr int kModels = 8;
  TempDir repository;
  install_family(repository.path(), kModels);
  install(repository.path(), {{"stranger", "big32"}});
  ServerProcess server(repository.path(), room_for(34 * kMiB, {"threads.loader=2"}));
  std::atomic<int> right{0}, wrong{0};
  const auto until = Clock::now() + std::chrono::seconds(rounds(5, 60));
  together(8, [&](int who) {
    std::mt19937 random(static_cast<unsigned>(who));
    auto client = server.client();
    while (Clock::now() < until) {
      const int n = static_cast<int>(random() % (kModels + 4));
      const auto response = infer(client, n < kModels ? name_of(n) : n == kModels ? "stranger" : name_of(n % 4));
      const bool good = n == kModels ? response.status == 200 : is_right(response, n < kModels ? n : n % 4);
      ++(good ? right : wrong);
    }
  });
  WARN(right << " right, " << wrong << " not");
  CHECK(wrong == 0);
  CHECK(right > 50);
  CHECK(server.metric_sum("mme_cache_refusals_total") == 0);
}
