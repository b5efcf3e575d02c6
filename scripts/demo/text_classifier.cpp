// A BERT-like text classifier: embeddings, attention layers, a pooled head; and its fine-tunes.
// No tokenizer: token ids come in.
#include "scripts/demo/example_models.hpp"
#include "scripts/demo/module_builder.hpp"

namespace mme::models {
namespace {

namespace jit = torch::jit;

constexpr std::int64_t kVocabulary = 12000;
constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kInner = 4 * kWidth;
constexpr std::int64_t kMaxLength = 64;
constexpr int kLayers = 8;
constexpr std::uint64_t kBackboneSeed = 42;
constexpr double kSpread = 0.04;

// 4 heads of 64, written out: the numbers below are kWidth and what follows from it.
constexpr const char* kLayerSource = R"(
def attend(self, x, padding):
    b = x.size(0)
    t = x.size(1)
    qkv = torch.linear(x, self.qkv_weight, self.qkv_bias).view([b, t, 3, 4, 64]).permute([2, 0, 3, 1, 4])
    scores = torch.matmul(qkv[0], qkv[1].transpose(-2, -1)) / 8.0
    scores = torch.masked_fill(scores, padding, -10000.0)
    mixed = torch.matmul(torch.softmax(scores, -1), qkv[2]).transpose(1, 2).reshape([b, t, 256])
    return torch.linear(mixed, self.out_weight, self.out_bias)

def forward(self, x, padding):
    x = torch.layer_norm(x + self.attend(x, padding), [256], self.norm1_weight, self.norm1_bias)
    inner = torch.gelu(torch.linear(x, self.up_weight, self.up_bias))
    inner = torch.linear(inner, self.down_weight, self.down_bias)
    return torch.layer_norm(x + inner, [256], self.norm2_weight, self.norm2_bias)
)";

constexpr const char* kHeadSource = R"(
    pooled = torch.tanh(torch.linear(x[:, 0], self.pool_weight, self.pool_bias))
    return torch.softmax(torch.linear(pooled, self.head_weight, self.head_bias), -1)
)";

torch::Tensor noise(c10::IntArrayRef shape) {
  return torch::randn(shape) * kSpread;
}

jit::Module layer_class(const jit::Module& owner) {
  jit::Module layer = new_submodule(owner, "EncoderLayer");
  add_parameter(layer, "qkv_weight", torch::empty({3 * kWidth, kWidth}));
  add_parameter(layer, "qkv_bias", torch::zeros({3 * kWidth}));
  add_parameter(layer, "out_weight", torch::empty({kWidth, kWidth}));
  add_parameter(layer, "out_bias", torch::zeros({kWidth}));
  add_parameter(layer, "up_weight", torch::empty({kInner, kWidth}));
  add_parameter(layer, "up_bias", torch::zeros({kInner}));
  add_parameter(layer, "down_weight", torch::empty({kWidth, kInner}));
  add_parameter(layer, "down_bias", torch::zeros({kWidth}));
  for (const char* norm : {"norm1", "norm2"}) {
    add_parameter(layer, std::string(norm) + "_weight", torch::ones({kWidth}));
    add_parameter(layer, std::string(norm) + "_bias", torch::zeros({kWidth}));
  }
  define(layer, kLayerSource);
  return layer;
}

void fill_matrices(const jit::Module& layer) {
  for (const torch::Tensor& weight : layer.parameters()) {
    if (weight.dim() == 2) weight.normal_(0, kSpread);
  }
}

}  // namespace

Example make_text_classifier(const FineTune& fine_tune) {
  torch::manual_seed(kBackboneSeed);
  jit::Module model = new_module("TextClassifier");
  add_parameter(model, "tokens", noise({kVocabulary, kWidth}));
  add_parameter(model, "positions", noise({kMaxLength, kWidth}));
  const jit::Module pattern = layer_class(model);
  std::string body =
      "def forward(self, tokens):\n"
      "    x = torch.embedding(self.tokens, tokens) + self.positions[:tokens.size(1)]\n"
      "    padding = torch.eq(tokens, 0).unsqueeze(1).unsqueeze(1)\n";
  for (int i = 0; i < kLayers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    const jit::Module layer = new_instance(pattern);
    if (i + 1 == kLayers) torch::manual_seed(fine_tune.seed);  // from here on it is the fine-tune's own
    fill_matrices(layer);
    model.register_module(name, layer);
    body += "    x = self." + name + ".forward(x, padding)\n";
  }
  add_parameter(model, "pool_weight", noise({kWidth, kWidth}));
  add_parameter(model, "pool_bias", torch::zeros({kWidth}));
  add_parameter(model, "head_weight", noise({fine_tune.labels, kWidth}) * 4);
  add_parameter(model, "head_bias", torch::zeros({fine_tune.labels}));
  define(model, body + (kHeadSource + 1));
  const torch::Tensor sample = torch::randint(1, kVocabulary, {1, 16}, torch::kLong);
  return {fine_tune.name, fine_tune.about, model, {{"tokens", sample}}};
}

}  // namespace mme::models
