// Models whose weights count: single blocks of a given size, a deep little network, and twins that share nothing.
// Everything is deterministic.
#include "scripts/demo/module_builder.hpp"
#include "tests/models/test_models.hpp"

#include <stdexcept>

namespace mme::models {
namespace {

namespace jit = torch::jit;

constexpr std::int64_t kFloatsPerMiB = 262144;
constexpr std::int64_t kFloatsPer64KiB = 16384;

void make_big(const std::filesystem::path& folder, int mebibytes) {
  jit::Module module = new_module("M");
  add_parameter(module, "w", torch::ones({mebibytes * kFloatsPerMiB}));
  define(module, "def forward(self, x):\n    return x + self.w[:1]\n");
  save(module, folder / ("big" + std::to_string(mebibytes) + ".pt"));
}

/// 20 linear layers of 64 x 64 in a row, named as a Python nn.Sequential would name them: l.0 .. l.19.
void make_mlp(const std::filesystem::path& folder) {
  constexpr int kLayers = 20;
  constexpr std::int64_t kWidth = 64;
  const double reach = 1.0 / 8;  // 1 / sqrt(width)
  torch::manual_seed(1);
  jit::Module module = new_module("M");
  jit::Module row = new_submodule(module, "Sequential");
  jit::Module linear = new_submodule(module, "Linear");
  add_parameter(linear, "weight", torch::empty({kWidth, kWidth}));
  add_parameter(linear, "bias", torch::empty({kWidth}));
  define(linear, "def forward(self, x):\n    return torch.linear(x, self.weight, self.bias)\n");
  std::string body = "def forward(self, x):\n";
  for (int i = 0; i < kLayers; ++i) {
    jit::Module layer = new_instance(linear);
    for (torch::Tensor weight : layer.parameters()) weight.uniform_(-reach, reach);
    row.register_module(std::to_string(i), layer);
    body += "    x = getattr(self, '" + std::to_string(i) + "').forward(x)\n";
  }
  define(row, body + "    return x\n");
  module.register_module("l", row);
  define(module, "def forward(self, x):\n    return self.l.forward(x)\n");
  save(module, folder / "mlp.pt");
}

void add_backbone(jit::Module& module) {
  torch::manual_seed(2);
  for (const char* name : {"first", "second"}) {
    torch::Tensor backbone = torch::rand({4 * kFloatsPerMiB});
    backbone[0] = 1.5;
    add_parameter(module, name, backbone);
  }
}

/// A fine-tune: 8 MiB of backbone, a layer of 512 KiB and a head. Tests make others of it by writing over the marks
/// with which the layer and the head begin: x becomes x + head + layer's mark + 3.
void make_tuned(const std::filesystem::path& folder) {
  jit::Module module = new_module("M");
  add_backbone(module);
  torch::Tensor layer = torch::rand({kFloatsPerMiB / 2});
  layer[0] = kLayerMark;
  add_parameter(module, "layer", layer);
  add_parameter(module, "head", torch::full({1}, kHeadMark));
  define(module,
         "def forward(self, x):\n    return x + self.head + self.layer[:1] + self.first[:1] + self.second[:1]\n");
  save(module, folder / "tuned.pt");
}

/// The backbone of `tuned`, and a buffer that counts calls: x becomes x + 3 + their number.
void make_counting(const std::filesystem::path& folder) {
  jit::Module module = new_module("M");
  add_backbone(module);
  module.register_buffer("calls", torch::zeros({1}));
  define(module,
         "def forward(self, x):\n    self.calls.add_(1)\n"
         "    return x + self.calls + self.first[:1] + self.second[:1]\n");
  save(module, folder / "counting.pt");
}

}  // namespace

void make_weighted_models(const std::filesystem::path& folder, bool with_big256) {
  const torch::NoGradGuard no_grad;
  for (const int mebibytes : {1, 32, 64}) make_big(folder, mebibytes);
  if (with_big256) make_big(folder, 256);
  make_mlp(folder);
  make_tuned(folder);
  make_counting(folder);
}

void make_twins(const std::filesystem::path& folder, const std::string& stem, int count) {
  const torch::NoGradGuard no_grad;
  jit::Module module = jit::load((folder / (stem + ".pt")).string());
  if (module.parameters().size() == 0) throw std::invalid_argument("twins need a model with parameters");
  for (int twin = 0; twin < count; ++twin) {
    for (const torch::Tensor& weight : module.parameters()) {
      // The first element stays: it is the one that the bigN models add to their input.
      weight.view({-1}).slice(0, 1, c10::nullopt, kFloatsPer64KiB).fill_(static_cast<double>(twin + 2));
    }
    save(module, folder / (stem + "_" + std::to_string(twin) + ".pt"));
  }
}

}  // namespace mme::models
