// A ModelService without models: a table of names and states, moved as the state table says, answering by a function.
// Single-threaded; time does not pass in it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/inference/model_service.hpp"

namespace mme::test {

class FakeModelService final : public server::ModelService {
 public:
  using Run = std::function<loader::Result<loader::TensorMap>(const loader::TensorMap&)>;

  /// One name with its state; by default it answers its inputs as OUTPUT__0, OUTPUT__1, ...
  server::ModelInfo& add(std::string name, server::Presence presence,
                         std::optional<std::string> version = std::nullopt) {
    server::ModelInfo info;
    info.name = name;
    info.version = version;
    if (version) info.versions = {*version};
    info.presence = presence;
    info.url = name + ".pt";
    if (presence == server::Presence::broken) info.reason = "the archive has no end";
    return models[std::move(name)] = std::move(info);
  }

  std::map<std::string, server::ModelInfo> models;
  std::map<std::string, Run> runs;
  std::map<std::string, loader::Error> failures;  ///< what infer and load of a name answer instead
  bool is_ready = true;
  bool is_accepting = true;
  bool is_draining = false;
  bool only_in_memory = false;  ///< as in mode platform: but for load(), what is not in memory does not exist
  /// What the last call was given.
  server::ModelRef last_model;
  loader::TensorMap last_inputs;
  std::optional<std::string> last_url;
  loader::Deadline last_deadline;
  int calls = 0;

  server::asio::awaitable<server::Result<server::InferenceResult>> infer(server::ModelRef model,
                                                                         loader::TensorMap inputs,
                                                                         loader::Deadline deadline,
                                                                         server::AccessRecord& record) override {
    ++calls;
    last_model = model;
    last_inputs = inputs;
    last_deadline = deadline;
    server::ModelInfo* info = visible(model);
    if (info == nullptr) co_return unknown();
    record.model = model.name;
    if (const auto failure = failures.find(model.name); failure != failures.end()) co_return failure->second;
    if (info->presence == server::Presence::broken) co_return broken();
    record.cache = info->presence == server::Presence::ready ? "hit" : "miss";
    info->presence = server::Presence::ready;
    const auto run = runs.find(model.name);
    auto outputs = run == runs.end() ? echo(inputs) : run->second(inputs);
    if (outputs.has_error()) co_return outputs.error();
    server::InferenceResult result;
    result.outputs = std::move(*outputs);
    result.version = info->version;
    co_return result;
  }

  server::asio::awaitable<server::Result<server::ModelInfo>> load(server::ModelRef model,
                                                                  std::optional<std::string> url,
                                                                  loader::Deadline deadline) override {
    last_model = model;
    last_url = url;
    last_deadline = deadline;
    server::ModelInfo* info = find(model);
    if (info == nullptr) co_return unknown();
    if (const auto failure = failures.find(model.name); failure != failures.end()) co_return failure->second;
    if (info->presence == server::Presence::broken) co_return broken();
    if (info->presence == server::Presence::ready) {
      co_return loader::fail(loader::ErrorCode::already_loaded, "the model is in memory already");
    }
    info->presence = server::Presence::ready;
    co_return *info;
  }

  server::asio::awaitable<server::Result<void>> unload(server::ModelRef model, loader::Deadline deadline) override {
    last_model = model;
    last_deadline = deadline;
    server::ModelInfo* info = find(model);
    if (info == nullptr || info->presence != server::Presence::ready) co_return unknown();
    info->presence = server::Presence::stored;
    co_return server::Result<void>();
  }

  server::Result<server::ModelInfo> describe(const server::ModelRef& model) override {
    const server::ModelInfo* info = visible(model);
    if (info == nullptr) return unknown();
    return *info;
  }

  std::vector<server::ModelInfo> in_memory() override {
    std::vector<server::ModelInfo> result;
    for (const auto& [name, info] : models) {
      if (info.presence == server::Presence::ready) result.push_back(info);
    }
    return result;
  }

  std::vector<server::ModelInfo> index() override {
    if (only_in_memory) return in_memory();
    std::vector<server::ModelInfo> result;
    for (const auto& [name, info] : models) result.push_back(info);
    return result;
  }

  bool ready() override { return is_ready; }
  bool accepting() override { return is_accepting; }
  bool draining() override { return is_draining; }

 private:
  server::ModelInfo* find(const server::ModelRef& model) {
    const auto found = models.find(model.name);
    if (found == models.end() || (model.version && model.version != found->second.version)) return nullptr;
    return &found->second;
  }
  server::ModelInfo* visible(const server::ModelRef& model) {
    server::ModelInfo* info = find(model);
    return info != nullptr && only_in_memory && info->presence != server::Presence::ready ? nullptr : info;
  }
  static loader::Error unknown() { return loader::fail(loader::ErrorCode::model_unknown, "no such model"); }
  static loader::Error broken() { return loader::fail(loader::ErrorCode::model_broken, "the archive has no end"); }
  static loader::Result<loader::TensorMap> echo(const loader::TensorMap& inputs) {
    loader::TensorMap outputs;
    for (const auto& input : inputs) outputs.push_back({"OUTPUT__" + std::to_string(outputs.size()), input.tensor});
    return outputs;
  }
};

}  // namespace mme::test
