// Memory under overcommit: what the server says stays in the budget, and what the kernel says in budget plus reserve.
#include "tests/e2e/memory_watch.hpp"

#include <random>

#include "tests/e2e/scenario.hpp"

using namespace mme::test;

namespace {

/// Answers counted by what they were.
struct Tally {
  std::atomic<int> right{0};
  std::atomic<int> refused{0};
  std::atomic<int> wrong{0};

  /// `expected` is looked at only for 200.
  void count(const Response& response, bool as_expected, const std::string& what) {
    if (response.status == 200 && as_expected) {
      ++right;
    } else if (response.status != 200 && declared(response.status)) {
      ++refused;
    } else if (wrong++ < 5) {
      std::fprintf(stderr, "%s: %u %.200s\n", what.c_str(), response.status, response.body.c_str());
    }
  }
};

Json matrix(long rows, long columns) {
  std::vector<float> data(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 7) * 0.25F;
  return {{"inputs", {tensor("x", {rows, columns}, "FP32", std::move(data))}}};
}

/// One client of the mix: models that fit, models that cannot, and calls of every size.
class MixedClient {
 public:
  MixedClient(const ServerProcess& server, Tally& tally, int seed)
      : client_(server.client()), tally_(tally), random_(static_cast<unsigned>(seed)) {}

  void twin(int number) {
    const auto response = infer(client_, "twin" + std::to_string(number));
    tally_.count(response, output(response, "OUTPUT__0").value("data", Json()) == Json({2.0, 3.0}), "twin");
  }
  void any() {
    const int what = pick(100);
    if (what < 60) return twin(pick(20));
    if (what < 75) return echo();
    if (what < 88) return batch();
    const char* model = what < 92 ? "peak" : what < 96 ? "huge" : "grow";
    const auto response = infer(client_, model);
    tally_.count(response, false, model);  // none of them fits
  }

 private:
  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  void echo() {
    const int sizes[] = {1, 100, 10'000, 300'000};
    const auto body = floats(std::vector<float>(static_cast<std::size_t>(sizes[pick(4)]), 0.5F));
    const auto response = infer(client_, "echo", body);
    tally_.count(response, output(response, "OUTPUT__0").value("data", Json()) == body["inputs"][0]["data"], "echo");
  }
  void batch() {
    const long rows[] = {1, 7, 64, 500, 3000};
    const long count = rows[pick(5)];
    const auto response = infer(client_, "mlp", matrix(count, 64));
    const auto answer = output(response, "OUTPUT__0");
    tally_.count(response, answer.value("shape", Json()) == Json({count, 64}), "mlp");
  }

  HttpClient client_;
  Tally& tally_;
  std::mt19937 random_;
};

std::map<std::string, std::string> mixed_models() {
  std::map<std::string, std::string> models{
      {"echo", "echo"}, {"mlp", "mlp"}, {"peak", "peak1g"}, {"huge", "hugeout"}, {"grow", "growload"}};
  for (int i = 0; i < 20; ++i) models["twin" + std::to_string(i)] = "big32_" + std::to_string(i);
  return models;
}

}  // namespace

TEST_CASE("Ten times overcommitted, the server stays within budget and reserve, and answers right or refuses",
          "[memory]") {
  constexpr std::size_t kBudget = 100 * kMiB;  // the models together: 650 MiB, and calls and loads of a gigabyte
  TempDir repository;
  install(repository.path(), mixed_models());
  // The kernel's own limit: the process as it starts, the budget and the reserve.
  MemoryGroup group(600 * kMiB);
  if (group) group.enter();
  ServerProcess server(repository.path(),
                       set({"cache.memory_budget=" + std::to_string(kBudget), "cache.activation_floor=16MiB",
                            "threads.compute=2", "threads.loader=2"}));
  if (group) group.leave();
  {  // what libraries touch at the first calls is the process's, not the models'
    auto client = server.client();
    for (const char* model : {"echo", "mlp"}) infer(client, model, matrix(64, 64));
    unload(client, "echo");
    unload(client, "mlp");
  }
  const std::size_t base = proportional_bytes(server.pid());
  Tally tally;
  MemoryWatch watch(server);
  const auto began = Clock::now();
  const auto until = began + (long_run() ? 600s : kSanitized ? 10s : 60s);
  together(12, [&](int number) {
    MixedClient client(server, tally, number);
    auto stampede = 0s;
    while (Clock::now() < until) {
      const auto now = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began);
      if (now - stampede >= 3s) {  // all of them ask for one model that is surely not there
        stampede = now;
        client.twin(static_cast<int>(now.count() / 3) % 20);
      }
      client.any();
    }
  });
  watch.stop();
  const auto reserve = static_cast<std::size_t>(server.metric("mme_memory_reserve_bytes"));
  WARN(tally.right << " right, " << tally.refused << " refused; sum of kinds at most " << watch.kinds() / kMiB << " of "
                   << kBudget / kMiB << " MiB, process at most " << (watch.process() - base) / double(kMiB)
                   << " MiB above its base of " << base / kMiB << ", " << watch.samples() << " samples");
  CHECK(tally.wrong == 0);
  CHECK(tally.right > 100);
  CHECK(tally.refused > 0);
  CHECK(watch.samples() > 100);
  CHECK(watch.kinds() <= kBudget);
  if (!kSanitized) CHECK(watch.process() <= base + kBudget + reserve);
  CHECK(server.terminate() == 0);
  if (group) CHECK(group.kills() == 0);
}

TEST_CASE("Memory that no meter sees comes off the budget while it is there: idle models go, nobody is killed",
          "[memory]") {
  if (kSanitized) return;  // the sanitizer's library wants to be the first that is preloaded
  TempDir repository;
  install(repository.path(), {{"a", "big64_0"}, {"b", "big64_1"}, {"c", "big64_2"}, {"echo", "echo"}});
  const auto hoard = repository.path() / "hoard";
  ServerProcess server(repository.path(), set({"cache.memory_budget=256MiB", "cache.activation_floor=16MiB"}),
                       {{"LD_PRELOAD", MME_HOARD_SHIM}, {"MME_TEST_HOARD", hoard.string()}});
  auto client = server.client();
  for (const char* model : {"a", "b", "c"}) REQUIRE(infer(client, model).status == 200);
  const auto budget = [&] { return server.metric("mme_memory_budget_bytes"); };
  REQUIRE(budget() == 256 * kMiB);
  // The reserve of at least 64 MiB takes a part of it; the rest of 300 MiB is more than two models.
  std::ofstream(hoard) << 300;
  CHECK(eventually([&] { return budget() < 150 * kMiB; }));
  CHECK(eventually([&] { return client.get("/models/a").status == 404; }));
  CHECK(server.metric("mme_cache_evictions_total{reason=\"budget\"}") >= 1);
  CHECK(eventually([&] { return server.metric("mme_memory_uncounted_bytes") > 250 * kMiB; }));
  CHECK(infer(client, "echo").status == 200);
  CHECK(events(server, "memory_uncounted").size() >= 1);
  std::ofstream(hoard) << 0;
  CHECK(eventually([&] { return budget() == 256 * kMiB; }));
  for (const char* model : {"a", "b", "c"}) CHECK(infer(client, model).status == 200);
  CHECK(events(server, "memory_uncounted_gone").size() >= 1);
}
