// A real cache and real pools around models whose calls are plain functions.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "server/inference/pending_call.hpp"

namespace mme::test {

using CallBody = std::function<loader::Result<loader::TensorMap>(loader::CallContext&)>;

/// Loads models that run `body`; a model's size is 1,000 bytes.
class FunctionLoader final : public loader::ModelLoader {
 public:
  explicit FunctionLoader(CallBody body, bool stateless = true) : body_(std::move(body)), stateless_(stateless) {}

  loader::Result<loader::Estimate> estimate(const loader::ModelSpec&) const override {
    return loader::Estimate{{}, 1'000};
  }
  loader::Result<std::unique_ptr<loader::Model>> load(const loader::ModelSpec&, loader::LoadContext&) const override {
    return std::unique_ptr<loader::Model>(std::make_unique<FunctionModel>(body_, stateless_));
  }

 private:
  struct FunctionModel final : loader::Model {
    FunctionModel(CallBody given, bool pure) : body(std::move(given)), is_stateless(pure) {}
    loader::Result<loader::TensorMap> infer(const loader::TensorMap&, loader::CallContext& context) override {
      return body(context);
    }
    const loader::Signature& signature() const override { return none; }
    loader::Footprint footprint() const override { return {{}, 1'000, 0}; }
    bool stateless() const override { return is_stateless; }
    CallBody body;
    bool is_stateless;
    loader::Signature none;
  };
  CallBody body_;
  bool stateless_;
};

/// Cache, pools and an io_context with threads of its own. Tests spawn coroutines on `io`.
class CallFixture {
 public:
  CallFixture(CallBody body, std::size_t compute_threads, bool stateless = true)
      : loader_(std::move(body), stateless),
        loads_({.name = "load", .threads = 1, .enter_thread = {}}),
        reaper_({.name = "reaper", .threads = 1, .enter_thread = {}}),
        cache(options(compute_threads), loader_, loads_.executor(), reaper_.executor(), observer_),
        compute({.name = "compute", .threads = compute_threads, .enter_thread = {}}) {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { io.run(); });
  }
  ~CallFixture() {
    work_.reset();
    for (auto& thread : threads_) thread.join();
  }
  CallFixture(const CallFixture&) = delete;
  CallFixture& operator=(const CallFixture&) = delete;

  /// One call of model `name` from a coroutine on the io threads.
  std::future<server::CallOutcome> call(const std::string& name, loader::Deadline deadline = loader::Deadline::max()) {
    server::Call call;
    call.spec.name = name;
    call.spec.artifact.path = name;
    call.request.deadline = deadline;
    auto result = std::make_shared<std::promise<server::CallOutcome>>();
    boost::asio::co_spawn(
        boost::asio::make_strand(io), server::run_call(cache, compute, std::move(call)),
        [result](const std::exception_ptr&, server::CallOutcome outcome) { result->set_value(std::move(outcome)); });
    return result->get_future();
  }

 private:
  static cache::CacheOptions options(std::size_t slots) {
    cache::CacheOptions options;
    options.budget = 100'000;
    options.compute_slots = slots;
    options.queue_size = 1'000;
    return options;
  }

  FunctionLoader loader_;
  cache::Observer observer_;
  server::WorkerPool loads_;
  server::WorkerPool reaper_;

 public:
  cache::ModelCache cache;
  boost::asio::io_context io;  // outlives compute, where given-up calls still run
  server::WorkerPool compute;

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io.get_executor()};
  std::vector<std::thread> threads_;
};

}  // namespace mme::test
