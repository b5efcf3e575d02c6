#include "tests/bench/incident_models.hpp"

#include "scripts/demo/module_builder.hpp"
#include "tests/e2e/oip.hpp"

namespace mme::bench {
namespace {

using mme::models::add_parameter;

constexpr std::int64_t kUsers = 300'000;
constexpr std::int64_t kItems = 1'500'000;
constexpr std::int64_t kFactors = 64;
constexpr std::int64_t kUserBatch = 64;
constexpr std::int64_t kHistory = 10;

constexpr std::int64_t kVocabulary = 30'522;
constexpr std::int64_t kHidden = 768;
constexpr std::int64_t kIntermediate = 3'072;
constexpr std::int64_t kEncoderLayers = 12;
constexpr std::int64_t kTokens = 16;

torch::Tensor spread_around_zero(c10::IntArrayRef shape, double reach) {
  return torch::empty(shape).uniform_(-reach, reach);
}

// 12 heads of 64.
constexpr const char* kEncoderLayer = R"(
def attend(self, x):
    b = x.size(0)
    t = x.size(1)
    q = torch.linear(x, self.q_weight, self.q_bias).view([b, t, 12, 64]).transpose(1, 2)
    k = torch.linear(x, self.k_weight, self.k_bias).view([b, t, 12, 64]).transpose(1, 2)
    v = torch.linear(x, self.v_weight, self.v_bias).view([b, t, 12, 64]).transpose(1, 2)
    mixed = torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / 8.0, -1), v)
    return torch.linear(mixed.transpose(1, 2).reshape([b, t, 768]), self.out_weight, self.out_bias)

def forward(self, x):
    x = torch.layer_norm(x + self.attend(x), [768], self.norm1_weight, self.norm1_bias)
    inner = torch.gelu(torch.linear(x, self.up_weight, self.up_bias))
    inner = torch.linear(inner, self.down_weight, self.down_bias)
    return torch.layer_norm(x + inner, [768], self.norm2_weight, self.norm2_bias)
)";

torch::jit::Module encoder_layer(const torch::jit::Module& owner) {
  torch::jit::Module layer = mme::models::new_submodule(owner, "EncoderLayer");
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    add_parameter(layer, name + "_weight", torch::empty({out, in}));
    add_parameter(layer, name + "_bias", torch::zeros({out}));
  };
  for (const char* name : {"q", "k", "v", "out"}) linear(name, kHidden, kHidden);
  linear("up", kIntermediate, kHidden);
  linear("down", kHidden, kIntermediate);
  for (const std::string norm : {"norm1", "norm2"}) {
    add_parameter(layer, norm + "_weight", torch::ones({kHidden}));
    add_parameter(layer, norm + "_bias", torch::zeros({kHidden}));
  }
  mme::models::define(layer, kEncoderLayer);
  return layer;
}

torch::Tensor counted(c10::IntArrayRef shape, std::int64_t below) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return (torch::arange(count, torch::kLong) * 7919).remainder(below).view(shape);
}

test::Json as_json(const std::string& name, const torch::Tensor& values) {
  const std::vector<std::int64_t> data(values.data_ptr<std::int64_t>(),
                                       values.data_ptr<std::int64_t>() + values.numel());
  return test::tensor(name, values.sizes().vec(), "INT64", data);
}

}  // namespace

void save_recommender(const std::filesystem::path& file) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  torch::jit::Module model = mme::models::new_module("Recommender");
  add_parameter(model, "users", spread_around_zero({kUsers, kFactors}, 1));
  add_parameter(model, "items", spread_around_zero({kItems, kFactors}, 1));
  add_parameter(model, "a", spread_around_zero({2048, 2 * kFactors}, 0.1));
  add_parameter(model, "b", spread_around_zero({1024, 2048}, 0.03));
  add_parameter(model, "c", spread_around_zero({1, 1024}, 0.03));
  mme::models::define(model,
                      "def forward(self, user, history):\n"
                      "    liked = torch.embedding(self.items, history).mean([1])\n"
                      "    x = torch.cat([torch.embedding(self.users, user), liked], 1)\n"
                      "    x = torch.relu(torch.linear(x, self.a, None))\n"
                      "    x = torch.relu(torch.linear(x, self.b, None))\n"
                      "    return torch.linear(x, self.c, None)\n");
  mme::models::save(model, file);
}

void save_extractor(const std::filesystem::path& file) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(2);
  torch::jit::Module model = mme::models::new_module("Extractor");
  add_parameter(model, "words", spread_around_zero({kVocabulary, kHidden}, 0.05));
  add_parameter(model, "positions", spread_around_zero({512, kHidden}, 0.05));
  const torch::jit::Module pattern = encoder_layer(model);
  std::string body =
      "def forward(self, tokens):\n"
      "    x = torch.embedding(self.words, tokens) + self.positions[:tokens.size(1)]\n";
  for (std::int64_t i = 0; i < kEncoderLayers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    const torch::jit::Module layer = mme::models::new_instance(pattern);
    for (const torch::Tensor& weight : layer.parameters()) {
      if (weight.dim() == 2) weight.uniform_(-0.05, 0.05);
    }
    model.register_module(name, layer);
    body += "    x = self." + name + ".forward(x)\n";
  }
  add_parameter(model, "head_weight", spread_around_zero({2, kHidden}, 0.1));
  mme::models::define(model, body + "    return torch.linear(x, self.head_weight, None)\n");
  mme::models::save(model, file);
}

void save_toucher(const std::filesystem::path& file) {
  torch::jit::Module model = mme::models::new_module("Toucher");
  mme::models::define(model,
                      "def forward(self, x):\n"
                      "    y = torch.linear(torch.ones([64, 768]), torch.ones([3072, 768]), None)\n"
                      "    y = torch.matmul(torch.gelu(y).view([4, 64, 768]), torch.ones([4, 768, 64]))\n"
                      "    return torch.softmax(y, -1).sum() + x\n");
  mme::models::save(model, file);
}

std::vector<c10::IValue> incident_inputs(int incident) {
  if (incident == 2) return {counted({1, kTokens}, kVocabulary)};
  return {counted({kUserBatch}, kUsers), counted({kUserBatch, kHistory}, kItems)};
}

std::string incident_body(int incident) {
  const auto inputs = incident_inputs(incident);
  test::Json request;
  if (incident == 2) {
    request["inputs"] = {as_json("tokens", inputs.at(0).toTensor())};
  } else {
    request["inputs"] = {as_json("user", inputs.at(0).toTensor()), as_json("history", inputs.at(1).toTensor())};
  }
  return request.dump();
}

}  // namespace mme::bench
