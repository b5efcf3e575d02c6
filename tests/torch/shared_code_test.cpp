// Models of one architecture run the same compiled code; nothing else of one may be seen in another.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "loader/torch/memory_account.hpp"
#include "loader/torch/torch_loader.hpp"
#include "tests/support/catch.hpp"
#include "tests/torch/torch_support.hpp"

namespace mme::test {
namespace {

using loader::TorchLoader;

/// The key of the code that it shares or could share; empty when its code is its own.
std::string code_of(const loader::Model& model) {
  for (const loader::Segment& segment : model.footprint().segments) {
    if (segment.code) return segment.key;
  }
  return "";
}

std::vector<float> answer(loader::Model& model, float x = 1) {
  const auto outputs = call(model, {{"x", floats({2}, {x, x})}});
  if (!outputs) FAIL(outputs.error().message);
  return values_of(outputs.value()[0].tensor);
}

using Two = std::vector<float>;
Two both(float value) {
  return {value, value};
}

}  // namespace

TEST_CASE("models of one code share it, and each answers by its own weights, numbers, lists and flags") {
  ModelDirectory directory;
  const auto sister = [&](float weight, std::int64_t number, std::vector<std::int64_t> list, bool flag) {
    return directory.save(ModuleBuilder()
                              .parameter("w", {2}, weight)
                              .integer("n", number)
                              .integers("l", std::move(list))
                              .flag("double", flag)
                              .define("def forward(self, x):\n"
                                      "  y = x * self.w + self.n\n"
                                      "  for i in self.l:\n    y = y + i\n"
                                      "  if self.double:\n    y = y * 2\n"
                                      "  return y\n"));
  };
  const TorchLoader torch;
  const auto first = load_with(torch, sister(2, 10, {}, false));
  CHECK(answer(*first) == both(12));
  const auto second = load_with(torch, sister(3, 20, {100, 200}, true));
  const auto third = load_with(torch, sister(4, 30, {1}, false));
  REQUIRE(code_of(*first) != "");
  CHECK(code_of(*second) == code_of(*first));
  CHECK(code_of(*third) == code_of(*first));
  for (int round = 0; round < 3; ++round) {
    CHECK(answer(*second) == both(646));
    CHECK(answer(*third) == both(35));
    CHECK(answer(*first) == both(12));
  }
  if (loader::objects_are_metered()) CHECK(second->footprint().code_bytes < 16'384);
}

TEST_CASE("an estimate names code that is in memory, and asks for no room for it") {
  ModelDirectory directory;
  const std::string source = "def forward(self, x):\n  return x * self.w\n";
  const auto one = directory.save(ModuleBuilder().parameter("w", {2}, 2).define(source));
  const auto other = directory.save(ModuleBuilder().parameter("w", {2}, 3).define(source));
  const TorchLoader torch;
  CHECK(torch.estimate(other).value().segments.empty());
  auto model = load_with(torch, one);
  const auto estimate = torch.estimate(other).value();
  REQUIRE(estimate.segments.size() == 1);
  CHECK(estimate.segments[0].key == code_of(*model));
  CHECK(estimate.segments[0].code);
  CHECK(estimate.private_bytes <
        torch.estimate(directory.script("def forward(self, x):\n  return x\n"))->private_bytes);
  model.reset();
  CHECK(torch.estimate(other).value().segments.empty());
}

TEST_CASE("code goes with the last model that runs it, and what calls left in it as well") {
  ModelDirectory directory;
  const std::string source = "def forward(self, x):\n  return x * self.w\n";
  const auto one = directory.save(ModuleBuilder().parameter("w", {2}, 2).define(source));
  const auto other = directory.save(ModuleBuilder().parameter("w", {2}, 3).define(source));
  static_cast<void>(answer(*load(one)));  // libtorch's own tables fill up
  const std::size_t accounts = loader::MemoryAccount::live();
  const TorchLoader torch;
  auto first = load_with(torch, one);
  const std::string key = code_of(*first);
  CHECK(answer(*first) == both(2));
  auto second = load_with(torch, other);
  first.reset();
  CHECK(answer(*second) == both(3));
  CHECK(code_of(*load_with(torch, one)) == key);
  second.reset();
  CHECK(loader::MemoryAccount::live() == accounts);
  CHECK(code_of(*load_with(torch, one)) != key);
}

TEST_CASE("a model that changes its state changes no sister, whoever comes first") {
  ModelDirectory directory;
  const std::string source =
      "def forward(self, x):\n"
      "  if self.counts:\n    self.seen += 1\n    self.n = self.n + 1\n"
      "  return x + self.seen + self.n\n";
  const auto model = [&](bool counts) {
    return directory.save(ModuleBuilder().buffer("seen", {2}, 0).integer("n", 0).flag("counts", counts).define(source));
  };
  const auto counting = model(true), still = model(false), other = model(true);
  for (const bool counting_first : {true, false}) {
    const TorchLoader torch;
    const auto first = load_with(torch, counting_first ? counting : still);
    const auto second = load_with(torch, counting_first ? still : counting);
    const auto third = load_with(torch, other);
    auto& counts = counting_first ? *first : *second;
    auto& stays = counting_first ? *second : *first;
    CHECK(code_of(*second) == code_of(*first));
    CHECK_FALSE(counts.stateless());
    CHECK(stays.stateless());
    for (int n = 1; n <= 3; ++n) {
      CHECK(answer(counts) == both(1 + 2 * static_cast<float>(n)));
      CHECK(answer(stays) == both(1));
    }
    CHECK_FALSE(third->stateless());
    CHECK(answer(*third) == both(3));
  }
}

TEST_CASE("frozen fine-tunes have equal code but other constants: each is its own") {
  ModelDirectory directory;
  const auto frozen = [&](float weight) {
    return directory.save(
        ModuleBuilder().parameter("w", {2}, weight).define("def forward(self, x):\n  return x * self.w\n").freeze());
  };
  const auto two = frozen(2), three = frozen(3), again = frozen(2);
  const TorchLoader torch;
  const auto first = load_with(torch, two);
  const auto second = load_with(torch, three);
  const auto third = load_with(torch, again);
  CHECK(answer(*first) == both(2));
  CHECK(answer(*second) == both(3));
  CHECK(answer(*third) == both(2));
  CHECK(code_of(*second) != code_of(*first));
  CHECK(code_of(*third) == code_of(*first));
}

TEST_CASE("a model that writes to a tensor in its code has that code to itself") {
  ModelDirectory directory;
  const auto frozen = directory.save(
      ModuleBuilder().parameter("w", {2}, 1).define("def forward(self, x):\n  return x * self.w\n").freeze());
  const auto writing = [&] {
    return directory.rewritten(frozen, [](const std::string&, std::string content) {
      const std::string constant = "CONSTANTS.c0";
      const auto at = content.find(constant);
      return at == std::string::npos ? content : content.replace(at, constant.size(), "torch.add_(CONSTANTS.c0, 1)");
    });
  };
  const auto one = writing(), other = writing();
  const TorchLoader torch;
  const auto first = load_with(torch, one);
  const auto second = load_with(torch, other);
  CHECK_FALSE(first->stateless());
  CHECK(code_of(*first) == "");
  CHECK(answer(*first) == both(2));
  CHECK(answer(*first) == both(3));
  CHECK(answer(*second) == both(2));
}

TEST_CASE("a default value that a call changes is changed for one model alone") {
  ModelDirectory directory;
  const auto model = [&](float weight) {
    const auto plain = directory.save(
        ModuleBuilder()
            .parameter("w", {2}, weight)
            .define("def forward(self, x, l: List[int]):\n  l[0] = l[0] + 1\n  return x * self.w + l[0]\n"));
    return directory.rewritten(plain, [](const std::string&, std::string content) {
      const std::string argument = "l: List[int])";
      const auto at = content.find(argument);
      return at == std::string::npos ? content : content.replace(at, argument.size(), "l: List[int]=[0])");
    });
  };
  const TorchLoader torch;
  const auto first = load_with(torch, model(1));
  const auto second = load_with(torch, model(2));
  CHECK_FALSE(first->stateless());
  for (float n = 1; n <= 3; ++n) {
    CHECK(answer(*first) == both(1 + n));
    CHECK(answer(*second) == both(2 + n));
  }
}

TEST_CASE("code that others do not share: with many constants, or run by the optimising executor") {
  ModelDirectory directory;
  const auto large = directory.save(ModuleBuilder()
                                        .parameter("w", {512, 1024}, 2)
                                        .define("def forward(self, x):\n  return x * self.w[0, :2]\n")
                                        .freeze());
  const TorchLoader torch;
  CHECK(code_of(*load_with(torch, large)) == "");
  auto optimized = directory.script("def forward(self, x):\n  return x\n");
  CHECK(code_of(*load_with(torch, optimized)) != "");
  optimized.settings.optimize = true;
  CHECK(code_of(*load_with(torch, optimized)) == "");
}

TEST_CASE("sisters loaded and called from several threads at once answer right and compile once") {
  ModelDirectory directory;
  std::string source = "def forward(self, x):\n";
  for (int i = 0; i < 40; ++i) source += "  x = torch.relu(x + self.w) - self.w\n";
  source += "  return x * self.w\n";
  std::vector<loader::ModelSpec> specs;
  for (int i = 1; i <= 8; ++i) {
    specs.push_back(directory.save(ModuleBuilder().parameter("w", {2}, static_cast<float>(i)).define(source)));
  }
  for (int round = 0; round < 5; ++round) {
    const TorchLoader torch;
    std::vector<std::unique_ptr<loader::Model>> models(specs.size());
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < specs.size(); i += 4) {
          loader::LoadContext context;
          context.memory = std::make_shared<CountingGrant>(std::size_t{1} << 40);
          models[i] = torch.load(specs[i], context).value();
          for (int n = 0; n < 5; ++n) {
            const auto outputs = call(*models[i], {{"x", floats({2}, {1, 1})}});
            wrong += outputs && values_of(outputs.value()[0].tensor) == both(static_cast<float>(i + 1)) ? 0 : 1;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    for (const auto& model : models) CHECK(code_of(*model) == code_of(*models[0]));
  }
}

}  // namespace mme::test
