// G21: no call but the first takes much longer than the others. The default executor of TorchScript profiles the first
// calls and compiles in the second, and again for each new shape: seconds for a deep model.
#include <time.h>

#include <algorithm>

#include "tests/support/catch.hpp"
#include "tests/torch/torch_support.hpp"

namespace mme::test {
namespace {

/// Of this thread, so that other work on the machine does not count.
double cpu_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

loader::ModelSpec save_deep_model(ModelDirectory& directory) {
  ModuleBuilder layer;
  layer.parameter("w", {64, 64}, 0.01F)
      .parameter("b", {64})
      .define("def forward(self, x):\n  return torch.tanh(torch.addmm(self.b, x, self.w) * 0.5 + x)\n");
  ModuleBuilder model;
  std::string source = "def forward(self, x):\n";
  for (int i = 0; i < 100; ++i) {
    model.child("l" + std::to_string(i), layer);
    source += "  x = self.l" + std::to_string(i) + ".forward(x)\n";
  }
  return directory.save(model.define(source + "  return x\n"));
}

double time_of_call(loader::Model& model, std::int64_t rows) {
  const loader::TensorMap inputs{{"x", floats({rows, 64}, std::vector<float>(static_cast<std::size_t>(rows) * 64, 1))}};
  const double began = cpu_milliseconds();
  REQUIRE(call(model, inputs).has_value());
  return cpu_milliseconds() - began;
}

}  // namespace

TEST_CASE("G21: the second to fifth call take no longer than later ones, nor do calls of a new shape") {
  ModelDirectory directory;
  const auto model = load(save_deep_model(directory));
  const double first = time_of_call(*model, 1);
  std::vector<double> early;
  for (int i = 0; i < 4; ++i) early.push_back(time_of_call(*model, 1));
  std::vector<double> steady;
  for (int i = 0; i < 50; ++i) steady.push_back(time_of_call(*model, 1));
  std::vector<double> shapes;
  for (std::int64_t rows = 2; rows < 12; ++rows) shapes.push_back(time_of_call(*model, rows));
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  WARN("first " << first << " ms, second " << early[0] << ", steady " << median(steady) << ", new shapes "
                << median(shapes));
#ifndef MME_SANITIZED
  // Compiling takes a hundred times as long; three is what was promised, and the rest is for what caches do.
  CHECK(median(early) <= 3 * median(steady) + 1);
  CHECK(*std::max_element(early.begin(), early.end()) <= 10 * median(steady) + 1);
  CHECK(median(shapes) <= 10 * median(steady) + 1);
#endif
}

}  // namespace mme::test
