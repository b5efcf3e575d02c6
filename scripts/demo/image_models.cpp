// Two small convolutional networks.
// No image decoding: pixels come in as numbers.
#include "scripts/demo/example_models.hpp"
#include "scripts/demo/module_builder.hpp"

#include <cmath>

namespace mme::models {
namespace {

namespace jit = torch::jit;

/// Noise that keeps the size of what goes through: variance 2 / inputs.
torch::Tensor scaled_noise(c10::IntArrayRef shape) {
  const double inputs = static_cast<double>(torch::empty(shape).numel() / shape[0]);
  return torch::randn(shape) * std::sqrt(2.0 / inputs);
}

void add_convolution(jit::Module& module, const std::string& name, std::int64_t from, std::int64_t to) {
  add_parameter(module, name + "_weight", scaled_noise({to, from, 3, 3}));
  add_parameter(module, name + "_bias", torch::zeros({to}));
}

jit::Module block_class(const jit::Module& owner, const std::string& name, std::int64_t from, std::int64_t to) {
  jit::Module block = new_submodule(owner, name);
  add_convolution(block, "conv", from, to);
  add_parameter(block, "norm_weight", torch::ones({to}));
  add_parameter(block, "norm_bias", torch::zeros({to}));
  block.register_buffer("running_mean", torch::zeros({to}));
  block.register_buffer("running_var", torch::ones({to}));
  define(block, R"(
def forward(self, x):
    x = torch.conv2d(x, self.conv_weight, self.conv_bias, [1, 1], [1, 1])
    x = torch.batch_norm(x, self.norm_weight, self.norm_bias, self.running_mean, self.running_var, False, 0.1, 1e-05, False)
    return torch.max_pool2d(torch.relu(x), [2, 2])
)");
  return block;
}

}  // namespace

Example make_digit_reader() {
  torch::manual_seed(101);
  jit::Module model = new_module("DigitReader");
  add_convolution(model, "conv1", 1, 16);
  add_convolution(model, "conv2", 16, 32);
  add_parameter(model, "head_weight", scaled_noise({10, 32 * 7 * 7}));
  add_parameter(model, "head_bias", torch::zeros({10}));
  define(model, R"(
def forward(self, image):
    x = torch.max_pool2d(torch.relu(torch.conv2d(image, self.conv1_weight, self.conv1_bias, [1, 1], [1, 1])), [2, 2])
    x = torch.max_pool2d(torch.relu(torch.conv2d(x, self.conv2_weight, self.conv2_bias, [1, 1], [1, 1])), [2, 2])
    return torch.softmax(torch.linear(torch.flatten(x, 1), self.head_weight, self.head_bias), -1)
)");
  return {"image-digits", "small CNN", model, {{"image", torch::rand({1, 1, 28, 28})}}};
}

Example make_product_recognizer() {
  torch::manual_seed(102);
  jit::Module model = new_module("ProductRecognizer");
  const std::int64_t channels[] = {3, 64, 128, 256, 384};
  std::string body = "def forward(self, image):\n    x = image\n";
  for (int i = 0; i < 4; ++i) {
    const std::string name = "block" + std::to_string(i);
    model.register_module(name, block_class(model, "Block" + std::to_string(i), channels[i], channels[i + 1]));
    body += "    x = self." + name + ".forward(x)\n";
  }
  add_parameter(model, "head_weight", scaled_noise({100, 384}));
  add_parameter(model, "head_bias", torch::zeros({100}));
  define(model, body +
                    "    x = torch.mean(x, [2, 3])\n"
                    "    return torch.softmax(torch.linear(x, self.head_weight, self.head_bias), -1)\n");
  return {"image-products", "CNN with batch norm", model, {{"image", torch::rand({1, 3, 32, 32})}}};
}

}  // namespace mme::models
