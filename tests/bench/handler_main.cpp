// A handler process: what the handlers of the two incidents did, by libtorch alone. It reads commands from its input.
#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <sys/resource.h>
#include <torch/script.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/bench/incident_models.hpp"
#include "tests/bench/naive_handlers.hpp"
#include "tests/support/together.hpp"

namespace mme::bench {
namespace {

using Inputs = std::vector<c10::IValue>;

/// Sums what libtorch says of tensors made and freed.
class TensorBytes final : public c10::MemoryReportingInfoBase {
 public:
  // One of the two is what this version of libtorch calls.
  void reportMemoryUsage(void*, std::int64_t bytes, std::int64_t, std::int64_t, c10::Device) { add(bytes); }
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) { add(bytes); }
  bool memoryProfilingEnabled() const override { return true; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  void add(std::int64_t bytes) {
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }
  std::int64_t held_ = 0;
  std::int64_t peak_ = 0;
};

class Worker {
 public:
  Worker(std::string when, std::string file, Inputs inputs)
      : when_(std::move(when)), file_(std::move(file)), inputs_(std::move(inputs)) {}

  void first() {
    double answer = 0;
    const double took = milliseconds_of([&] {
      torch::jit::Module model = when_ == kLoadOnce ? common() : fresh();
      answer = call(model);
    });
    std::printf("first %.3f %.9g\n", took, answer);
  }

  void activations() {
    torch::jit::Module model = common();
    call(model);
    const auto bytes = std::make_shared<TensorBytes>();
    {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
      call(model);
    }
    std::printf("activations %lld\n", static_cast<long long>(bytes->peak()));
  }

  void run(int requests) {
    std::atomic<int> next{0};
    test::together(kWorkers, [&](int) {
      at::set_num_threads(1);
      torch::jit::Module model = when_ == kLoadOnce ? common() : torch::jit::Module("None");
      if (when_ == kLoadWorker) model = fresh();
      if (when_ == kLoadOnce || when_ == kLoadWorker) warm(model);
      while (next++ < requests) request(model);
    });
    std::printf("done\n");
  }

 private:
  [[nodiscard]] torch::jit::Module fresh() const {
    torch::jit::Module model = torch::jit::load(file_);
    model.eval();
    return model;
  }
  /// The one model of the bare loop; loaded when it is first wanted.
  torch::jit::Module common() {
    const std::lock_guard lock(mutex_);
    if (kept_.empty()) kept_.push_back(fresh());
    return kept_.front();
  }
  double call(torch::jit::Module& model) const {
    const c10::InferenceMode inference;
    return model.forward(inputs_).toTensor().flatten()[0].item<double>();
  }
  /// The executor profiles its first calls and then makes its plan.
  void warm(torch::jit::Module& model) const {
    for (int i = 0; i < 3; ++i) call(model);
  }
  void request(torch::jit::Module& model) {
    const double took = milliseconds_of([&] {
      if (when_ == kLoadOnce || when_ == kLoadWorker) {
        call(model);
        return;
      }
      torch::jit::Module own = fresh();
      call(own);
      const std::lock_guard lock(mutex_);
      if (when_ == kLoadEachKept) kept_.push_back(own);
    });
    const std::lock_guard lock(mutex_);
    std::printf("took %.3f\n", took);
  }

  std::string when_;
  std::string file_;
  Inputs inputs_;
  std::mutex mutex_;
  std::vector<torch::jit::Module> kept_;
};

void obey(Worker& worker) {
  std::printf("ready\n");
  for (std::string command; std::getline(std::cin, command);) {
    if (command == "first") {
      worker.first();
    } else if (command == "activations") {
      worker.activations();
    } else {
      worker.run(std::stoi(command.substr(4)));
    }
  }
}

}  // namespace

int handler_main(const std::vector<std::string>& arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  at::set_num_threads(1);
  // Whoever started us looks at what we take and ends us in time; this holds when it looks too late.
  const rlim_t cap = std::stoull(arguments.at(3)) / 4 * 5;
  const rlimit limit{cap, cap};
  setrlimit(RLIMIT_DATA, &limit);
  Worker worker(arguments.at(0), arguments.at(2), incident_inputs(std::stoi(arguments.at(1))));
  try {
    obey(worker);
  } catch (const std::exception&) {
    return 1;  // no memory: seen by the end of our output
  }
  return 0;
}

}  // namespace mme::bench
