#include "tests/bench/bench_models.hpp"

#include "scripts/demo/module_builder.hpp"

namespace mme::bench {

void save_stack(const std::filesystem::path& file, std::size_t layers, StackFactors factors) {
  constexpr std::int64_t kWidth = 2048;
  const torch::NoGradGuard no_grad;
  torch::jit::Module stack = mme::models::new_module("Stack");
  std::string source = "def forward(self, x):\n";
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string name = "w" + std::to_string(i);
    const double value = 0.001 * static_cast<double>(i + 1);
    const double factor = i + 1 == layers && factors.last_factor != 1 ? factors.last_factor : factors.factor;
    mme::models::add_parameter(stack, name, torch::full({kWidth, kWidth}, factor * value));
    source += "    x = torch.relu(torch.mm(x, self." + name + "))\n";
  }
  mme::models::define(stack, source + "    return x\n");
  mme::models::save(stack, file);
}

void save_layers(const std::filesystem::path& file) {
  constexpr int kLayers = 20;
  constexpr std::int64_t kWidth = 256;
  const torch::NoGradGuard no_grad;
  torch::jit::Module model = mme::models::new_module("Layers");
  std::string source = "def forward(self, x):\n";
  for (int i = 0; i < kLayers; ++i) {
    const std::string name = "w" + std::to_string(i);
    mme::models::add_parameter(model, name, (torch::rand({kWidth, kWidth}) - 0.5) * 0.2);
    source += "    x = torch.relu(torch.linear(x, self." + name + ", None))\n";
  }
  mme::models::define(model, source + "    return x\n");
  mme::models::save(model, file);
}

void save_convolutions(const std::filesystem::path& file) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  torch::jit::Module net = mme::models::new_module("Net");
  mme::models::add_parameter(net, "a", torch::rand({16, 3, 3, 3}) - 0.5);
  mme::models::add_parameter(net, "b", torch::rand({32, 16, 3, 3}) - 0.5);
  mme::models::add_parameter(net, "c", torch::rand({32, 32, 3, 3}) - 0.5);
  mme::models::define(net,
                      "def forward(self, x):\n"
                      "    x = torch.relu(torch.conv2d(x, self.a, None, [1, 1], [1, 1], [1, 1], 1))\n"
                      "    x = torch.relu(torch.conv2d(x, self.b, None, [2, 2], [1, 1], [1, 1], 1))\n"
                      "    x = torch.relu(torch.conv2d(x, self.c, None, [1, 1], [1, 1], [1, 1], 1))\n"
                      "    return x.mean([2, 3])\n");
  mme::models::save(net, file);
}

}  // namespace mme::bench
