// Models that are mostly tables: recommenders, a sentence embedder, a similarity of two vectors.
// Only a few rows of a table are read by a call.
#include "scripts/demo/example_models.hpp"
#include "scripts/demo/module_builder.hpp"

namespace mme::models {
namespace {

namespace jit = torch::jit;

constexpr std::int64_t kRowWidth = 64;
constexpr double kTableSpread = 0.1;

torch::Tensor table(c10::IntArrayRef shape) {
  return torch::randn(shape) * kTableSpread;
}

}  // namespace

Example make_recommender(const std::string& name, const std::string& about, std::int64_t users, std::int64_t items,
                         std::uint64_t seed) {
  torch::manual_seed(seed);
  jit::Module model = new_module("Recommender");
  add_parameter(model, "users", table({users, kRowWidth}));
  add_parameter(model, "items", table({items, kRowWidth}));
  define(model, R"(
def forward(self, user, candidates):
    taste = torch.embedding(self.users, user).unsqueeze(-1)
    return torch.sigmoid(torch.matmul(torch.embedding(self.items, candidates), taste).squeeze(-1))
)");
  const torch::Tensor user = torch::randint(users, {1}, torch::kLong);
  const torch::Tensor candidates = torch::randint(items, {1, 10}, torch::kLong);
  return {name, about, model, {{"user", user}, {"candidates", candidates}}};
}

Example make_sentence_embedder() {
  constexpr std::int64_t kVocabulary = 90000;
  torch::manual_seed(203);
  jit::Module model = new_module("SentenceEmbedder");
  add_parameter(model, "words", table({kVocabulary, kRowWidth}));
  add_parameter(model, "project", table({128, kRowWidth}));
  define(model, R"(
def forward(self, tokens):
    x = torch.linear(torch.mean(torch.embedding(self.words, tokens), [1]), self.project)
    return x / torch.sqrt(torch.sum(x * x, [-1], True) + 1e-12)
)");
  return {"embed-sentences", "embedding mean", model, {{"tokens", torch::randint(kVocabulary, {1, 12}, torch::kLong)}}};
}

Example make_pair_similarity() {
  torch::manual_seed(204);
  jit::Module model = new_module("PairSimilarity");
  add_parameter(model, "project", table({256, 384}));
  define(model, R"(
def forward(self, left, right):
    return torch.cosine_similarity(torch.linear(left, self.project), torch.linear(right, self.project), -1)
)");
  return {"pair-similarity", "two inputs", model, {{"left", torch::rand({1, 384})}, {"right", torch::rand({1, 384})}}};
}

}  // namespace mme::models
