// Open Inference Protocol requests in one line, for the black-box tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/server_process.hpp"

namespace mme::test {

using Json = nlohmann::json;

inline Json tensor(const std::string& name, std::vector<long> shape, const std::string& type, Json data) {
  return {{"name", name}, {"shape", std::move(shape)}, {"datatype", type}, {"data", std::move(data)}};
}

/// {"inputs":[x]} with two floats, what most models of the test kit take.
inline Json two_floats() {
  return {{"inputs", {tensor("x", {2}, "FP32", {1, 2})}}};
}

inline Response infer(HttpClient& client, const std::string& model, const Json& request = two_floats()) {
  return client.post("/v2/models/" + model + "/infer", request);
}

/// Data of the one output with that name; null when there is none.
inline Json output(const Response& response, const std::string& name) {
  for (const auto& entry : response.json().value("outputs", Json::array())) {
    if (entry.value("name", "") == name) return entry;
  }
  return nullptr;
}

}  // namespace mme::test
