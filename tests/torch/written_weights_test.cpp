// Models that write to some of their weights: those are their own, the others are held together with whoever has the
// same.
#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "loader/torch/torch_loader.hpp"
#include "tests/support/catch.hpp"
#include "tests/torch/torch_support.hpp"

namespace mme::test {
namespace {

using loader::LoadWay;
using loader::TorchLoader;

constexpr std::size_t large_bytes = std::size_t{1} << 20;
const loader::Shape large{256, 1024};  // 1 MiB: a run of its own

std::set<std::string> weight_keys(const loader::Model& model) {
  std::set<std::string> keys;
  for (const loader::Segment& segment : model.footprint().segments) {
    if (!segment.code) keys.insert(segment.key);
  }
  return keys;
}

/// Three large tensors, w b c, a view of b, and what decides which code runs.
loader::ModelSpec save_with(ModelDirectory& directory, const std::string& body) {
  ModuleBuilder module;
  module.parameter("w", large, 1).buffer("b", large, 2).buffer("c", large, 4).row_of("b", "row");
  module.tensor_list("list", 2).integer("count", 0).flag("on", true);
  return directory.save(
      module.define("def helper(self, y):\n  return y.add_(1)\n"
                    "def forward(self, x):\n  " +
                    body + "\n  return x + self.w[0, :2] + self.b[0, :2] + self.c[0, :2] + self.count\n"));
}

/// Reads one of the tensors, all of it.
loader::ModelSpec save_reader(ModelDirectory& directory, float value) {
  return directory.save(ModuleBuilder()
                            .buffer("t", large, value)
                            .define("def forward(self, x):\n  return x + self.t.min() + self.t.max()\n"));
}

std::vector<float> answer_of(loader::Model& model) {
  const auto outputs = call(model, {{"x", floats({2}, {0, 0})}});
  if (!outputs) FAIL(outputs.error().message);
  return values_of(outputs.value()[0].tensor);
}

/// Models that read w, b and c, and which of them another one holds together with these.
class Readers {
 public:
  Readers(ModelDirectory& directory, const TorchLoader& torch) : torch_(torch) {
    for (const auto& [name, value] : std::map<std::string, float>{{"w", 1}, {"b", 2}, {"c", 4}}) {
      specs_[name] = save_reader(directory, value);
      models_[name] = load_with(torch, specs_[name]);
      values_[name] = value;
    }
  }
  [[nodiscard]] std::string shared_with(const loader::Model& model) const {
    std::string names;
    for (const char* name : {"w", "b", "c"}) {
      for (const std::string& key : weight_keys(*models_.at(name)))
        names += weight_keys(model).count(key) > 0 ? name : "";
    }
    return names;
  }
  void check_unchanged() {
    for (const auto& [name, model] : models_) {
      CAPTURE(name);
      CHECK(answer_of(*model) == std::vector<float>{2 * values_[name], 2 * values_[name]});
    }
  }
  [[nodiscard]] std::string unusable() const {
    std::string names;
    for (const char* name : {"w", "b", "c"}) names += models_.at(name)->usable() ? "" : name;
    return names;
  }
  [[nodiscard]] loader::ErrorCode error_of(const std::string& name) {
    return call(*models_.at(name), {{"x", floats({2}, {0, 0})}}).error().code;
  }
  void load_again() {
    for (auto& [name, model] : models_) {
      model.reset();
      model = load_with(torch_, specs_.at(name));
    }
  }
  [[nodiscard]] bool leases_work() const {
    if (models_.at("w")->footprint().way_reason != "no read lease") return true;
    WARN("no read leases on this file system");
    return false;
  }

 private:
  const TorchLoader& torch_;
  std::map<std::string, loader::ModelSpec> specs_;
  std::map<std::string, std::unique_ptr<loader::Model>> models_;
  std::map<std::string, float> values_;
};

struct Row {
  std::string body;
  std::string shared;  ///< by a model with that body
};

}  // namespace

TEST_CASE("a model shares all weights but those that it may write to, and no other sees what it writes") {
  const Row row = GENERATE(values<Row>({
      // nothing in memory that is the model's
      {"y = x", "wbc"},
      {"self.count = self.count + 1", "wbc"},
      {"self.c = self.b + 1", "wbc"},
      // one tensor: whole, in part, through views and functions
      {"self.b.add_(1)", "wc"},
      {"self.b[0, :2].add_(1)", "wc"},
      {"self.b.narrow(0, self.count % 4, 1).add_(1)\n  self.count = self.count + 1", "wc"},
      {"self.row.add_(1)", "wc"},
      {"self.helper(self.c)", "wb"},
      {"torch.mul(self.w, self.b, out=self.c)", "wb"},
      {"self.w += 1", "bc"},
      {"if self.on:\n    self.b.add_(1)", "wc"},
      {"if not self.on:\n    self.b.add_(1)", "wbc"},
      // one or the other
      {"y = self.b if bool(x.sum() >= 0) else self.c\n  y.add_(1)", "w"},
      {"y = self.b\n  for i in range(3):\n    y.add_(1)\n    y = self.c", "w"},
      {"for t in [self.b, self.c]:\n    t.add_(1)", "w"},
      {"l: List[Tensor] = []\n  l.append(self.w)\n  l[0].add_(1)\n  self.b.add_(1)", "c"},
      {"torch.batch_norm(torch.ones([2, 262144]), None, None, self.b.view([-1]), self.c.view([-1]), True, 0.1, 0.1, "
       "False)",
       "w"},
      // what one call leaves decides what the next one writes to
      {"self.c = self.b\n  self.c.add_(1)", "w"},
      {"self.c.add_(1)\n  self.c = self.b", "w"},
      {"if self.on:\n    self.c.add_(1)\n  else:\n    self.b.add_(1)\n  self.on = not self.on", "w"},
      {"if self.count > 1:\n    self.w.add_(1)\n  self.count = self.count + 1", "bc"},
      // through a list that was filled later; what is of no use to the answer would never run
      {"l: List[Tensor] = []\n  l.append(self.b)\n  torch._foreach_add_(l, 1.0)\n  x = x + l[0].sum() * 0", "wc"},
      {"l = [x]\n  l[0] = self.b\n  torch._foreach_zero_(l)\n  x = x + l[0].sum() * 0", "wc"},
      {"l = [p for p in [self.b]]\n  torch._foreach_mul_(l, 0.5)\n  x = x + l[0].sum() * 0", "wc"},
      {"l: List[Tensor] = []\n  l.append(self.b)\n  x = x + torch.einsum('ij->ji', l).add_(1).sum() * 0", "wc"},
      {"x = x + torch.flatten_dense_tensors([self.b]).add_(1).sum() * 0", "wc"},
      // operators that return an argument or write without saying so
      {"x = x + torch.rrelu_with_noise_(x.clone(), self.b[0, :2], 0.5, 0.5, True) * 0", ""},
      {"y = torch.sparse_coo_tensor(torch.zeros([1, 2], dtype=4), self.c[0, :2], [2])\n"
       "  x = x + y._values().add_(1).sum() * 0",
       "wb"},
      // nobody can tell
      {"t = torch.empty([0])\n  t.set_(self.b)\n  t.add_(1)\n  x = x + t.sum() * 0", ""},
      {"self.c = torch.empty([0]).set_(self.b)", ""},
      {"self.c.set_(self.b)\n  self.c.add_(1)", ""},
      {"self.list.append(self.b)\n  self.list[-1].add_(1)", ""},
      {"self.list[0] = self.w\n  self.list[0].add_(1)", ""},
  }));
  CAPTURE(row.body);
  ModelDirectory directory;
  const TorchLoader torch;
  Readers readers(directory, torch);
  if (!readers.leases_work()) return;
  const auto spec = save_with(directory, row.body), sister = save_with(directory, row.body);
  loader::LoaderOptions alone_options;
  alone_options.share = false;
  for (const auto& each : {spec, spec, sister, sister}) {  // new code, known weights, known code, both
    const auto alone = load(each, alone_options);
    const auto model = load_with(torch, each);
    CHECK(readers.shared_with(*model) == row.shared);
    for (int calls = 0; calls < 4; ++calls) CHECK(answer_of(*model) == answer_of(*alone));
    readers.check_unchanged();
    const std::size_t own = 3 - row.shared.size();
    CHECK(model->footprint().private_bytes >= own * large_bytes);
    CHECK(model->footprint().private_bytes < own * large_bytes + large_bytes / 2);
    CHECK((model->footprint().way == LoadWay::mapped) == (own < 3));
    const auto estimate = torch.estimate(each);  // known by now
    CHECK(estimate->private_bytes >= own * large_bytes);
    CHECK(estimate->private_bytes < own * large_bytes + large_bytes / 2);
  }
}

TEST_CASE("writers of one architecture share the backbone that both only read") {
  ModelDirectory directory;
  const TorchLoader torch;
  const auto one = load_with(torch, save_with(directory, "self.b.add_(1)"));
  const auto two = load_with(torch, save_with(directory, "self.b.add_(1)"));
  if (one->footprint().way_reason == "no read lease") return;
  CHECK(one->footprint().way_reason == "1 weight that it may write to");
  CHECK_FALSE(one->stateless());
  CHECK(weight_keys(*one) == weight_keys(*two));
  CHECK(answer_of(*one) == std::vector<float>{8, 8});
  CHECK(answer_of(*one) == std::vector<float>{9, 9});
  CHECK(answer_of(*two) == std::vector<float>{8, 8});
}

TEST_CASE("what a model wrote stays when its file is changed under it") {
  ModelDirectory directory;
  for (const bool again : {false, true}) {
    const TorchLoader torch;
    const auto spec = save_with(directory, "self.b.add_(1)");
    if (again) static_cast<void>(load_with(torch, spec));
    const auto model = load_with(torch, spec);
    CHECK(answer_of(*model) == std::vector<float>{8, 8});
    std::ofstream(spec.artifact.path, std::ios::binary) << std::string(4 * large_bytes, 'z');
    CHECK(answer_of(*model) == std::vector<float>{9, 9});
  }
}

TEST_CASE("a weight that is copied because it is written takes no room twice") {
  ModelDirectory directory;
  const auto spec =
      directory.save(ModuleBuilder()
                         .parameter("w", large, 1)
                         .buffer("b", {2048, 1024}, 2)
                         .define("def forward(self, x):\n  self.b.add_(1)\n  return x + self.w[0, :2]\n"));
  const TorchLoader torch;
  for (int turn = 0; turn < 2; ++turn) {
    loader::LoadContext context;
    const auto grant = std::make_shared<CountingGrant>(9 * large_bytes, 10 * large_bytes);
    context.memory = grant;
    context.granted_bytes = 9 * large_bytes;
    const auto model = torch.load(spec, context);
    REQUIRE(model.has_value());
    CHECK((*model)->footprint().private_bytes >= 8 * large_bytes);
  }
}

TEST_CASE("a write that nobody saw coming is known before anybody answers with what it changed") {
  ModelDirectory directory;
  const TorchLoader torch;
  Readers readers(directory, torch);
  if (!readers.leases_work()) return;
  const auto silent = [&] {
    return directory.save(ModuleBuilder()
                              .parameter("w", large, 1)
                              .buffer("b", large, 2)
                              .define("def forward(self, x):\n"
                                      "  if bool(x.sum() > 0):\n    x = x + 0 * silent_add(self.b)[0, :2]\n"
                                      "  return x + self.w[0, :2] + self.b[0, :2]\n"));
  };
  const auto one = silent(), sister = silent();
  const auto x = [](float value) { return loader::TensorMap{{"x", floats({2}, {value, value})}}; };
  {
    const auto model = load_with(torch, one);
    CHECK(model->stateless());
    CHECK(readers.shared_with(*model) == "wb");
    CHECK(values_of(call(*model, x(0)).value()[0].tensor) == std::vector<float>{3, 3});
    for (int again = 0; again < 2; ++again) {
      const auto answer = call(*model, x(1));
      REQUIRE(answer.has_error());
      CHECK(answer.error().code == loader::ErrorCode::settling);
      CHECK(answer.error().message == "the model's weights were written to while it was in use; it is loaded again");
    }
    CHECK_FALSE(model->usable());
    CHECK(readers.unusable() == "b");
    CHECK(readers.error_of("b") == loader::ErrorCode::settling);
  }
  readers.load_again();
  readers.check_unchanged();
  for (const auto& spec : {one, sister}) {  // neither the model nor its code is believed again
    const auto model = load_with(torch, spec);
    CHECK_FALSE(model->stateless());
    CHECK(readers.shared_with(*model).empty());
    for (float n = 1; n <= 3; ++n) {
      CHECK(values_of(call(*model, x(1)).value()[0].tensor) == std::vector<float>{4 + n, 4 + n});
    }
    CHECK(model->usable());
  }
  readers.check_unchanged();
  CHECK(readers.unusable().empty());
}

TEST_CASE("calls that run while another one writes unseen answer right or not at all") {
  ModelDirectory directory;
  const auto reading = save_reader(directory, 2);
  const auto writing = directory.save(
      ModuleBuilder().buffer("b", large, 2).define("def forward(self, x):\n  return silent_add(self.b)\n"));
  for (int round = 0; round < 10; ++round) {
    const TorchLoader torch;
    const auto reader = load_with(torch, reading);
    const auto writer = load_with(torch, writing);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (int n = 0; n < 50; ++n) {
          const auto answer = call(*reader, {{"x", floats({2}, {0, 0})}});
          if (answer && values_of(answer.value()[0].tensor) != std::vector<float>{4, 4}) ++wrong;
        }
      });
    }
    threads.emplace_back([&] { static_cast<void>(call(*writer, {{"x", floats({2}, {0, 0})}})); });
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

}  // namespace mme::test
