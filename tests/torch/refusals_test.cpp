// Memory refused at every single place where a call asks for it: the call says `activations`, gives everything back,
// and the next call of the same model is right to the last bit.
#include <cstdlib>

#include "loader/torch/memory_account.hpp"
#include "loader/torch/torch_loader.hpp"
#include "tests/support/catch.hpp"
#include "tests/torch/torch_support.hpp"

namespace mme::test {
namespace {

using loader::ErrorCode;

const loader::TensorMap small_input{{"x", floats({2}, {1, 2})}};

struct Kind {
  const char* name;
  void (*build)(ModuleBuilder& model);
};

void layers(ModuleBuilder& model) {
  ModuleBuilder layer;
  layer.parameter("w", {64, 64}, 0.01F)
      .parameter("b", {64})
      .define("def forward(self, x):\n  return torch.relu(torch.addmm(self.b, x, self.w))\n");
  std::string source = "def forward(self, x):\n  y = x.expand(4, 2).repeat([1, 32])\n";
  for (int i = 0; i < 4; ++i) {
    model.child("l" + std::to_string(i), layer);
    source += "  y = self.l" + std::to_string(i) + ".forward(y)\n";
  }
  model.define(source + "  return {'y': y, 'parts': torch.cat([y, y])}\n");
}

void lstm(ModuleBuilder& model) {
  model.parameter("wi", {64, 16}, 0.02F)
      .parameter("wh", {64, 16}, 0.03F)
      .parameter("bi", {64})
      .parameter("bh", {64}, 0.1F)
      .define(
          "def forward(self, x):\n"
          "  s = x.repeat([5 * 3 * 8]).view([5, 3, 16])\n"
          "  h = torch.zeros([1, 3, 16])\n"
          "  y, hn, cn = torch.lstm(s, [h, h], [self.wi, self.wh, self.bi, self.bh], True, 1, 0.0, False, False, "
          "False)\n"
          "  return (y, hn, cn)\n");
}

void attention(ModuleBuilder& model) {
  model.parameter("q", {32, 32}, 0.02F)
      .parameter("k", {32, 32}, 0.01F)
      .parameter("v", {32, 32}, 0.03F)
      .parameter("g", {32}, 0.5F)
      .define(
          "def forward(self, x):\n"
          "  s = x.repeat([2 * 8 * 16]).view([2, 8, 32])\n"
          "  a = torch.softmax(torch.matmul(torch.matmul(s, self.q), torch.matmul(s, self.k).transpose(1, 2)) / 5.6, "
          "-1)\n"
          "  return torch.layer_norm(torch.matmul(a, torch.matmul(s, self.v)) + s, [32], self.g, None, 1e-05, True)\n");
}

void convolutions(ModuleBuilder& model) {
  model.parameter("w1", {8, 3, 3, 3}, 0.05F)
      .parameter("w2", {16, 8, 3, 3}, 0.02F)
      .parameter("b", {16})
      .buffer("mean", {16}, 0.1F)
      .buffer("var", {16}, 1)
      .define(
          "def forward(self, x):\n"
          "  i = x.repeat([3 * 16 * 8]).view([1, 3, 16, 16])\n"
          "  y = torch.relu(torch.conv2d(i, self.w1, None, [1, 1], [1, 1], [1, 1], 1))\n"
          "  y = torch.max_pool2d(y, [2, 2], [2, 2], [0, 0], [1, 1], False)\n"
          "  y = torch.conv2d(y, self.w2, self.b, [1, 1], [1, 1], [1, 1], 1)\n"
          "  y = torch.batch_norm(y, None, None, self.mean, self.var, False, 0.1, 1e-05, False)\n"
          "  return torch.adaptive_avg_pool2d(y, [1, 1]).flatten(1)\n");
}

void sorting(ModuleBuilder& model) {
  model.parameter("w", {1000}, 0.5F)
      .define(
          "def forward(self, x):\n"
          "  s = torch.cos(torch.arange(1000.) * x[1]) + self.w\n"
          "  v, i = torch.sort(s, 0, True)\n"
          "  t, j = torch.topk(s, 10, 0, True, True)\n"
          "  return (v, i, t, torch.argsort(s, 0, False), torch.cumsum(v, 0))\n");
}

void indexing(ModuleBuilder& model) {
  model.parameter("w", {50, 20}, 0.25F)
      .define(
          "def forward(self, x):\n"
          "  i = torch.arange(30) % 7\n"
          "  y = self.w[i] * x[0]\n"
          "  z = torch.index_put(torch.zeros([50, 20]), [i], y, True)\n"
          "  m = torch.masked_select(z, z > 0.5)\n"
          "  n = torch.nonzero(z)\n"
          "  return (torch.gather(y, 1, n[:30, 1:2]), m, torch.stack([y, y + 1]))\n");
}

void embeddings(ModuleBuilder& model) {
  model.parameter("w", {100, 24}, 0.125F)
      .define(
          "def forward(self, x):\n"
          "  i = torch.arange(60).view([5, 12])\n"
          "  e = torch.embedding(self.w, i, -1, False, False)\n"
          "  return e.mean([1]) * x[0] + torch.einsum('ijk,ijk->ik', [e, e])\n");
}

void texts_and_lists(ModuleBuilder& model) {
  model.define(
      "def forward(self, x):\n"
      "  l: List[Tensor] = []\n"
      "  for i in range(200):\n    l.append(x * i)\n"
      "  d: Dict[str, Tensor] = {}\n"
      "  for i in range(20):\n    d['key number ' + str(i)] = l[i]\n"
      "  return (torch.stack(l), d['key number 7'])\n");
}

/// As text, so that a failure can be shown.
std::vector<std::string> bits(const loader::TensorMap& outputs) {
  std::vector<std::string> all;
  for (const auto& output : outputs) {
    all.emplace_back(reinterpret_cast<const char*>(output.tensor.data().data()), output.tensor.data().size());
  }
  return all;
}

std::unique_ptr<loader::Model> load_without_steps(const loader::ModelSpec& spec) {
  loader::LoadContext context;
  context.memory = std::make_shared<CountingGrant>(std::size_t{1} << 30);
  // Asks for each block, so that each can be refused.
  return loader::TorchLoader({.step = 1}).load(spec, context).value();
}

/// One call that is refused room from the n-th time on that it asks. True when it asked less often and answered.
bool call_refused_from(loader::Model& model, std::size_t n) {
  const auto grant = std::make_shared<CountingGrant>();
  grant->refuse_from(n);
  loader::CallContext context;
  context.memory = grant;
  auto result = model.infer(small_input, context);
  const bool answered = result.has_value();
  if (!answered) REQUIRE(result.error().code == ErrorCode::activations);
  REQUIRE((!answered || grant->grows() <= n));  // or a refusal went unnoticed
  result = loader::fail(ErrorCode::internal, "");
  REQUIRE(grant->held() == 0);
  REQUIRE_FALSE(grant->overdrawn());
  return answered;
}

}  // namespace

TEST_CASE("a call that finds no room is refused, wherever that happens, and the next one is right") {
  const Kind kinds[] = {
      {"layers", &layers}, {"LSTM", &lstm},      {"attention", &attention},  {"CNN", &convolutions},
      {"sort", &sorting},  {"index", &indexing}, {"embedding", &embeddings}, {"lists", &texts_and_lists}};
  const bool every_one = std::getenv("MME_LONG") != nullptr;
  for (const Kind& kind : kinds) {
    INFO(kind.name);
    ModelDirectory directory;
    ModuleBuilder builder;
    kind.build(builder);
    const auto spec = directory.save(builder);
    const auto expected = bits(call(*load(spec), small_input).value());
    for (const bool first_call : {true, false}) {
      auto model = load_without_steps(spec);
      if (!first_call) REQUIRE(call(*model, small_input).has_value());
      std::size_t n = 0;
      for (bool answered = false; !answered; n += n < 48 || every_one ? 1 : 11) {
        REQUIRE(n < 5000);
        if (first_call && n % 8 == 0) model = load_without_steps(spec);  // its first call builds the plans
        answered = call_refused_from(*model, n);
        REQUIRE((bits(call(*model, small_input).value()) == expected));
      }
      CHECK(n > (loader::objects_are_metered() ? 10U : 2U));
    }
  }
}

}  // namespace mme::test
