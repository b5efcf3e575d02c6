// mme_bench load [MIB]: how long a load of a linear stack takes, file in the page cache, against copying its bytes.
// Prints one table; every figure is a ratio to a limit taken in the same run, for machines differ and are shared.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "loader/torch/torch_loader.hpp"
#include "loader/torch/torch_runtime.hpp"
#include "scripts/demo/module_builder.hpp"
#include "tests/torch/counting_grant.hpp"
#include "tests/torch/file_fixture.hpp"

namespace {

using mme::loader::LoaderOptions;

constexpr std::int64_t width = 2048;
constexpr std::size_t layer_bytes = std::size_t{width} * width * sizeof(float);
constexpr int rounds = 7;

struct Measured {
  std::vector<double> ms;

  [[nodiscard]] double at(double share) const {
    auto sorted = ms;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  }
};

void measure(Measured& into, const std::function<void()>& work) {
  malloc_trim(0);  // a warm heap makes a copying load look six times as fast as it is
  const auto begin = std::chrono::steady_clock::now();
  work();
  into.ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
}

void print(const char* name, const Measured& limit, const Measured& ours, const char* goal) {
  std::printf("%-24s %9.2f %9.2f %8.4f  %-8s  (min %.2f, max %.2f ms)\n", name, limit.at(0.5), ours.at(0.5),
              ours.at(0.5) / limit.at(0.5), goal, ours.at(0), ours.at(1));
}

std::filesystem::path save_stack(std::size_t layers) {
  const torch::NoGradGuard no_grad;
  torch::jit::Module stack = mme::models::new_module("Stack");
  std::string source = "def forward(self, x):\n";
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string name = "w" + std::to_string(i);
    mme::models::add_parameter(stack, name, torch::full({width, width}, 0.001 * static_cast<double>(i + 1)));
    source += "    x = torch.relu(torch.mm(x, self." + name + "))\n";
  }
  mme::models::define(stack, source + "    return x\n");
  const auto file = std::filesystem::temp_directory_path() / ("mme_bench_" + std::to_string(getpid()) + ".pt");
  mme::models::save(stack, file);
  return file;
}

std::unique_ptr<mme::loader::Model> load(const std::filesystem::path& file, const LoaderOptions& options) {
  mme::loader::ModelSpec spec;
  spec.artifact = mme::test::artifact_of(file);
  const mme::loader::TorchLoader loader(options);
  mme::loader::LoadContext context;
  context.memory = std::make_shared<mme::test::CountingGrant>(loader.estimate(spec).value().private_bytes);
  return std::move(loader.load(spec, context).value());
}

void run(const std::filesystem::path& file, std::size_t bytes) {
  const std::vector<char> from(bytes, 'a');
  std::vector<char> to(bytes, 'b');
  Measured copied, plain, mapped, lazy;
  for (int round = 0; round < rounds; ++round) {
    measure(copied, [&] { std::memcpy(to.data(), from.data(), bytes); });
    measure(plain, [&] { torch::jit::load(file.string(), at::Device(at::kCPU)); });
    std::unique_ptr<mme::loader::Model> model;
    measure(mapped, [&] { model = load(file, {}); });
    if (model->footprint().way != mme::loader::LoadWay::mapped) {
      std::printf("not mapped: %s\n", model->footprint().way_reason.c_str());
    }
    model.reset();
    measure(lazy, [&] { model = load(file, {.prefault = false}); });
  }
  std::printf("memcpy %.1f ms, torch::jit::load %.1f ms (medians of %d)\n", copied.at(0.5), plain.at(0.5), rounds);
  std::printf("%-24s %9s %9s %8s  %s\n", "measure", "limit", "ours", "ratio", "goal");
  print("load", copied, lazy, "<= 0.083");
  print("load with prefault", copied, mapped, "-");
  print("load against plain", plain, lazy, "-");
  print("prefault against plain", plain, mapped, "-");
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t mebibytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 400;
  if (argc < 2 || std::string(argv[1]) != "load" || mebibytes == 0) {
    std::fprintf(stderr, "usage: mme_bench load [MIB]\n");
    return 2;
  }
  mme::loader::start_torch_runtime(1);
  const std::size_t layers = std::max<std::size_t>(1, mebibytes * 1024 * 1024 / layer_bytes);
  const auto file = save_stack(layers);
  run(file, layers * layer_bytes);
  std::filesystem::remove(file);
  return 0;
}
