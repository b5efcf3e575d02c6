// What the client's side of a measurement shares: requests whose answer must come, and the memory of the server.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/bench_row.hpp"
#include "tests/e2e/memory_watch.hpp"
#include "tests/e2e/scenario.hpp"

namespace mme::bench {

/// One row of `width` equal numbers, as the body of an inference request.
inline std::string row_of(std::size_t width, float value = 0.01F) {
  const test::Json request{
      {"inputs", {test::tensor("x", {1, static_cast<long>(width)}, "FP32", std::vector<float>(width, value))}}};
  return request.dump();
}

/// The answer to a request that must have one; throws else.
inline test::Response must_answer(test::HttpClient& client, const std::string& model, const std::string& body) {
  auto response = client.send("POST", "/v2/models/" + model + "/infer", body, {{"Content-Type", "application/json"}});
  if (response.status != 200) throw std::runtime_error(std::to_string(response.status) + " " + response.body);
  return response;
}

/// The numbers of the first output.
inline std::vector<double> numbers(const test::Response& response) {
  return response.json().at("outputs").at(0).at("data").get<std::vector<double>>();
}

inline double first_number(const test::Response& response) {
  return numbers(response).at(0);
}

/// Whether two results of the same sum in another order may be these.
inline bool close_to(double found, double expected) {
  return std::abs(found - expected) <= 1e-3 * std::abs(expected) + 1e-6;
}

/// Runs `each(client, number)` for all numbers below `count` on so many connections; each takes the next number.
template <class Each>
void spread(const test::ServerProcess& server, int connections, int count, Each each) {
  std::atomic<int> next{0};
  test::together(connections, [&](int) {
    auto client = server.client();
    for (int number = next++; number < count; number = next++) each(client, number);
  });
}

}  // namespace mme::bench
