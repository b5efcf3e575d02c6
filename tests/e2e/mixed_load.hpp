// Clients for a server with too little memory: models that fit, models that cannot, and calls of every size.
#pragma once

#include <atomic>
#include <cstdio>
#include <map>
#include <random>
#include <string>

#include "tests/e2e/scenario.hpp"

namespace mme::test {

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

inline Json matrix(long rows, long columns) {
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
    tally_.count(response, field(response, "data") == Json({2.0, 3.0}), "twin");
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
  /// Of the one output; null when there is none.
  static Json field(const Response& response, const char* name) {
    const Json answer = output(response, "OUTPUT__0");
    return answer.is_object() ? answer.value(name, Json()) : Json();
  }
  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  void echo() {
    const int sizes[] = {1, 100, 10'000, 300'000};
    const auto body = floats(std::vector<float>(static_cast<std::size_t>(sizes[pick(4)]), 0.5F));
    const auto response = infer(client_, "echo", body);
    tally_.count(response, field(response, "data") == body["inputs"][0]["data"], "echo");
  }
  void batch() {
    const long rows[] = {1, 7, 64, 500, 3000};
    const long count = rows[pick(5)];
    const auto response = infer(client_, "mlp", matrix(count, 64));
    tally_.count(response, field(response, "shape") == Json({count, 64}), "mlp");
  }

  HttpClient client_;
  Tally& tally_;
  std::mt19937 random_;
};

inline std::map<std::string, std::string> mixed_models() {
  std::map<std::string, std::string> models{
      {"echo", "echo"}, {"mlp", "mlp"}, {"peak", "peak1g"}, {"huge", "hugeout"}, {"grow", "growload"}};
  for (int i = 0; i < 20; ++i) models["twin" + std::to_string(i)] = "big32_" + std::to_string(i);
  return models;
}

inline std::vector<std::string> mixed_settings(std::size_t budget) {
  return set({"cache.memory_budget=" + std::to_string(budget), "cache.activation_floor=16MiB", "threads.compute=2",
              "threads.loader=2"});
}

/// What libraries touch at the first calls is the process's own, not the models'.
inline void touch_libraries(const ServerProcess& server) {
  auto client = server.client();
  for (const char* model : {"echo", "mlp"}) infer(client, model, matrix(64, 64));
  unload(client, "echo");
  unload(client, "mlp");
}

/// Twelve clients; every three seconds all of them ask for one model that is surely not there.
inline void run_mixed(const ServerProcess& server, Tally& tally, std::chrono::seconds length) {
  const auto began = Clock::now();
  together(12, [&](int number) {
    MixedClient client(server, tally, number);
    auto stampede = 0s;
    while (Clock::now() < began + length) {
      const auto now = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began);
      if (now - stampede >= 3s) {
        stampede = now;
        client.twin(static_cast<int>(now.count() / 3) % 20);
      }
      client.any();
    }
  });
}

}  // namespace mme::test
