// Fine-tunes of one backbone hold it once; what one of them writes, no other sees.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "loader/torch/file_lease.hpp"
#include "loader/torch/memory_account.hpp"
#include "loader/torch/torch_loader.hpp"
#include "tests/support/catch.hpp"
#include "tests/torch/file_fixture.hpp"
#include "tests/torch/torch_support.hpp"

namespace mme::test {
namespace {

using loader::Footprint;
using loader::LoadWay;
using loader::Segment;
using loader::TorchLoader;

constexpr std::size_t mebi = std::size_t{1} << 20;

std::set<std::string> weights_of(const loader::Model& model) {
  std::set<std::string> keys;
  for (const Segment& segment : model.footprint().segments) {
    if (!segment.code) keys.insert(segment.key);
  }
  return keys;
}

std::size_t common(const loader::Model& one, const loader::Model& other) {
  const auto keys = weights_of(other);
  std::size_t count = 0;
  for (const std::string& key : weights_of(one)) count += keys.count(key);
  return count;
}

/// A backbone of 4 MiB and a layer and a head of its own.
loader::ModelSpec fine_tune(ModelDirectory& directory, float own, const std::string& extra = "") {
  return directory.save(
      ModuleBuilder()
          .parameter("backbone", {1024, 1024}, 1)
          .parameter("bias", {1024}, 2)
          .parameter("layer", {256, 1024}, own)
          .parameter("head", {2}, own)
          .define("def forward(self, x):\n" + extra +
                  "  return x * self.backbone[0, :2] + self.bias[:2] + self.layer[0, :2] + self.head\n"));
}

std::vector<float> says(loader::Model& model) {
  const auto outputs = call(model, {{"x", floats({2}, {1, 1})}});
  if (!outputs) FAIL(outputs.error().message);
  return values_of(outputs.value()[0].tensor);
}

std::vector<float> pair_of(float value) {
  return {value, value};
}

bool leases_work(const loader::Model& model) {
  if (model.footprint().way_reason != "no read lease") return true;
  WARN("no read leases on this file system");
  return false;
}

}  // namespace

TEST_CASE("fine-tunes hold the weights that are equal once, whoever of them stays") {
  ModelDirectory directory;
  const auto one = fine_tune(directory, 10), two = fine_tune(directory, 20), three = fine_tune(directory, 30);
  const TorchLoader torch;
  auto first = load_with(torch, one);
  if (!leases_work(*first)) return;
  CHECK(torch.estimate(two)->private_bytes < mebi / 2);
  auto second = load_with(torch, two);
  auto third = load_with(torch, three);
  CHECK(weights_of(*first).size() == 4);
  CHECK(common(*first, *second) == 2);  // the backbone and its bias
  CHECK(common(*first, *third) == 2);
  CHECK(second->footprint().way == LoadWay::mapped);
  CHECK(second->footprint().private_bytes < 4096);
  CHECK(second->footprint().mapped_bytes > 5 * mebi);
  CHECK(mapped_bytes(two.artifact.path, "Rss") < 2 * mebi);
  CHECK(says(*first) == pair_of(23));
  CHECK(says(*second) == pair_of(43));
  first.reset();
  CHECK(mapped_bytes(one.artifact.path, "Rss") >= 4 * mebi);
  CHECK(mapped_bytes(one.artifact.path, "Rss") <= 4 * mebi + mebi / 4);  // its own layer went with it
  CHECK(says(*second) == pair_of(43));
  CHECK(says(*third) == pair_of(63));
  second.reset();
  CHECK(maps_of(two.artifact.path) == 0);
  CHECK(says(*third) == pair_of(63));
  third.reset();
  CHECK(maps_of(one.artifact.path) == 0);
  CHECK(loader::FileLease::held() == 0);
}

TEST_CASE("a fine-tune that was there before is proven already, and maps no more of its file than is its own") {
  ModelDirectory directory;
  const auto one = fine_tune(directory, 10), copy = fine_tune(directory, 10);
  const TorchLoader torch;
  const auto first = load_with(torch, one);
  if (!leases_work(*first)) return;
  for (int round = 0; round < 3; ++round) {
    const auto second = load_with(torch, copy);
    CHECK(weights_of(*second) == weights_of(*first));
    CHECK(maps_of(copy.artifact.path) == 0);
    CHECK(says(*second) == pair_of(23));
  }
}

TEST_CASE("a model that writes its own buffer never changes a neighbour with equal initial weights") {
  ModelDirectory directory;
  const std::string source =
      "def forward(self, x):\n  if self.counts:\n    self.n.add_(1)\n  return x + self.n[0, :2]\n";
  const auto model = [&](bool counts) {
    return directory.save(ModuleBuilder().buffer("n", {1024, 1024}).flag("counts", counts).define(source));
  };
  const auto writer = model(true), reader = model(false), other = model(true);
  for (const bool writer_first : {true, false}) {
    const TorchLoader torch;
    const auto first = load_with(torch, writer_first ? writer : reader);
    const auto second = load_with(torch, writer_first ? reader : writer);
    const auto third = load_with(torch, other);
    auto& writes = writer_first ? *first : *second;
    auto& reads = writer_first ? *second : *first;
    if (!leases_work(reads)) return;
    CHECK(weights_of(writes).empty());
    CHECK(writes.footprint().private_bytes >= 4 * mebi);
    CHECK(weights_of(reads).size() == 1);
    for (float n = 1; n < 4; ++n) {
      CHECK(says(writes) == pair_of(1 + n));
      CHECK(says(reads) == pair_of(1));
    }
    CHECK(says(*third) == pair_of(2));
    CHECK(torch.estimate(writer)->private_bytes >= 4 * mebi);  // known by now
  }
}

TEST_CASE("weights that a model's own code restores are not shared: it may have changed them") {
  ModelDirectory directory;
  const std::string source =
      "def __getstate__(self):\n  return (self.w, self.training)\n"
      "def __setstate__(self, s: Tuple[Tensor, bool]) -> None:\n"
      "  self.w = s[0].add_(1)\n  self.training = s[1]\n"
      "def forward(self, x):\n  return x + self.w[0, :2]\n";
  const auto restores =
      directory.save(ModuleBuilder().buffer("w", {1024, 1024}, 1).flag("training", false).define(source));
  const auto plain = directory.save(
      ModuleBuilder().buffer("w", {1024, 1024}, 1).define("def forward(self, x):\n  return x + self.w[0, :2]\n"));
  const TorchLoader torch;
  const auto first = load_with(torch, plain);
  const auto second = load_with(torch, restores);
  const auto third = load_with(torch, restores);
  CHECK(weights_of(*second).empty());
  CHECK(says(*first) == pair_of(2));
  CHECK(says(*second) == pair_of(3));
  CHECK(says(*third) == pair_of(3));
}

TEST_CASE("the file behind a shared backbone may be changed in any way, by whoever") {
  ModelDirectory directory;
  for (const bool owner_gone : {false, true}) {
    const auto one = fine_tune(directory, 10), two = fine_tune(directory, 20);
    const TorchLoader torch;
    auto first = load_with(torch, one);
    if (!leases_work(*first)) return;
    const auto second = load_with(torch, two);
    if (owner_gone) first.reset();
    std::ofstream(one.artifact.path, std::ios::binary) << std::string(9 * mebi, 'z');
    CHECK(says(*second) == pair_of(43));
    if (first) CHECK(says(*first) == pair_of(23));
    std::filesystem::resize_file(two.artifact.path, 0);
    CHECK(says(*second) == pair_of(43));
  }
}

TEST_CASE("loads and ends of sisters in any order leave right answers and nothing behind") {
  ModelDirectory directory;
  std::vector<loader::ModelSpec> specs;
  for (int i = 0; i < 6; ++i) specs.push_back(fine_tune(directory, static_cast<float>(10 * (i + 1))));
  static_cast<void>(says(*load(specs[0])));
  const std::size_t accounts = loader::MemoryAccount::live();
  {
    const TorchLoader torch;
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        std::unique_ptr<loader::Model> before;
        for (std::size_t n = 0; n < 40; ++n) {
          const std::size_t i = (n * (t + 1) + t) % specs.size();
          loader::LoadContext context;
          context.memory = std::make_shared<CountingGrant>(std::size_t{1} << 40);
          auto model = std::move(torch.load(specs[i], context).value());
          for (int calls = 0; calls < 2; ++calls) {
            const auto outputs = call(*model, {{"x", floats({2}, {1, 1})}});
            const auto expected = pair_of(static_cast<float>(20 * (i + 1) + 3));
            wrong += outputs && values_of(outputs.value()[0].tensor) == expected ? 0 : 1;
          }
          before = std::move(model);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
  CHECK(loader::MemoryAccount::live() == accounts);
  CHECK(loader::FileLease::held() == 0);
  for (const auto& spec : specs) CHECK(maps_of(spec.artifact.path) == 0);
}

}  // namespace mme::test
