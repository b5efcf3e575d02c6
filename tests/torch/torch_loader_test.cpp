// What a load and a call hold of the budget, to the byte; what happens when room ends; and files that want to do harm.
#include "loader/torch/torch_loader.hpp"
#include "loader/torch/memory_account.hpp"

#include <filesystem>
#include <random>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/support/zip_writer.hpp"
#include "tests/torch/torch_support.hpp"

namespace mme::test {
namespace {

using loader::ErrorCode;
using loader::LoadContext;
using loader::MemoryAccount;
using loader::TorchLoader;

const loader::TensorMap one_two{{"x", floats({2}, {1, 2})}};
constexpr std::size_t mib = std::size_t{1} << 20;

loader::ModelSpec save_layers(ModelDirectory& directory) {
  ModuleBuilder layer;
  layer.parameter("w", {64, 64}, 0.01F)
      .parameter("b", {64})
      .define("def forward(self, x):\n  return torch.relu(torch.addmm(self.b, x, self.w))\n");
  ModuleBuilder model;
  std::string source = "def forward(self, x):\n  y = x.expand(4, 2).repeat([1, 32])\n";
  for (int i = 0; i < 4; ++i) {
    model.child("l" + std::to_string(i), layer);
    source += "  y = self.l" + std::to_string(i) + ".forward(y)\n";
  }
  return directory.save(model.define(source + "  return {'y': y, 'parts': torch.cat([y, y])}\n"));
}

bool is_one_clean_line(const std::string& text) {
  return !text.empty() && text.size() < 400 && text.find('\n') == std::string::npos &&
         text.find("/tmp") == std::string::npos && text.find("frame #") == std::string::npos;
}

}  // namespace

TEST_CASE("the footprint is what the load holds: every weight once, and little more than the estimate") {
  ModelDirectory directory;
  const auto spec = directory.save(
      ModuleBuilder().parameter("w", {1024, 1024}).define("def forward(self, x):\n  return x + self.w[0, :2]\n"));
  const std::size_t estimate = bytes_of(TorchLoader().estimate(spec).value());
  const auto model = load(spec);
  const Bytes held = bytes_of(model->footprint());
  CHECK(held.weights >= 4 * mib);
  CHECK(held.weights <= 4 * mib + 4096);  // it begins within a page
  CHECK(held.code > 1000);
  CHECK(held.code < mib / 4);
  // Under a sanitizer nothing meters objects, and the code is only estimated itself.
  if (loader::objects_are_metered()) CHECK(estimate >= held.weights + held.code);
  CHECK(estimate < 5 * mib);
}

TEST_CASE("models and their outputs leave no account behind") {
  ModelDirectory directory;
  const auto spec = save_layers(directory);
  const auto once = [&] {
    auto model = load(spec);
    auto outputs = call(*model, one_two).value();
    model.reset();
    outputs.clear();
    return MemoryAccount::live();
  };
  once();  // libtorch's own tables fill up
  const std::size_t before = once();
  for (int i = 0; i < 5; ++i) CHECK(once() == before);
}

TEST_CASE("a call's grant ends with exactly its outputs, and with nothing when they are gone") {
  ModelDirectory directory;
  const auto model = load(directory.script("def forward(self, x):\n  return torch.zeros([262144]) + x[0]\n"));
  const auto grant = std::make_shared<CountingGrant>(100);
  loader::CallContext context;
  context.memory = grant;
  context.granted_bytes = 100;
  auto outputs = model->infer(one_two, context).value();
  CHECK(outputs[0].tensor.byte_size() == mib);
  CHECK(grant->held() == mib + 64);
  CHECK(context.peak_bytes >= 2 * mib);
  CHECK(context.peak_bytes < 2 * mib + 64 * 1024);
  CHECK(grant->kept() < 64 * 1024);
  outputs.clear();
  CHECK(grant->held() == 0);
  CHECK_FALSE(grant->overdrawn());
}

TEST_CASE("a small view of a large result does not keep the large one") {
  ModelDirectory directory;
  const auto model = load(directory.script("def forward(self, x):\n  return torch.ones([1048576])[:1]\n"));
  const auto grant = std::make_shared<CountingGrant>();
  loader::CallContext context;
  context.memory = grant;
  const auto outputs = model->infer(one_two, context).value();
  CHECK(values_of(outputs[0].tensor) == std::vector<float>{1});
  CHECK(grant->held() < 200);
  CHECK(context.peak_bytes > 4 * mib);
}

TEST_CASE("repeated calls keep nothing more, also of a model that replaces its state") {
  ModelDirectory directory;
  const auto model = load(directory.save(
      ModuleBuilder().buffer("n", {1000}).define("def forward(self, x):\n  self.n = self.n + x[0]\n  return x + 0\n")));
  std::size_t kept = 0;
  for (int i = 0; i < 20; ++i) {
    loader::CallContext context;
    const auto grant = std::make_shared<CountingGrant>();
    context.memory = grant;
    REQUIRE(model->infer(one_two, context).has_value());
    if (i >= 2) kept += grant->kept();
  }
  CHECK(kept < 1000);
}

TEST_CASE("what a forked task allocates is paid for by its call") {
  ModelDirectory directory;
  const auto plain = directory.script(
      "def helper(self, x):\n  return torch.zeros([1048576]).sum() + x\n"
      "def forward(self, x):\n  return self.helper(x)\n");
  // Only the text of a saved model can fork; source given to define() cannot.
  const std::string call_text = "return (self).helper(x, )";
  const auto model = load(directory.rewritten(plain, [&](const std::string& name, std::string content) {
    const auto at = content.find(call_text);
    if (name.ends_with(".py") && at != std::string::npos) {
      content.replace(at, call_text.size(),
                      "def task():\n      return (self).helper(x, )\n    t = fork(task)\n    return torch.wait(t)");
    }
    return content;
  }));
  CHECK(model->stateless());
  loader::CallContext context;
  context.memory = std::make_shared<CountingGrant>();
  const auto outputs = model->infer(one_two, context).value();
  CHECK(values_of(outputs[0].tensor) == std::vector<float>{1, 2});
  CHECK(context.peak_bytes > 4 * mib);
}

TEST_CASE("a load knows what its grant holds at the start, and tells the most that it held") {
  ModelDirectory directory;
  const auto spec = save_layers(directory);
  std::size_t peak = 0;
  {
    LoadContext context;
    context.memory = std::make_shared<CountingGrant>(mib);
    const auto model = TorchLoader().load(spec, context).value();
    const auto footprint = model->footprint();
    peak = context.peak_bytes;
    // Under a sanitizer objects are not metered, and the code is a guess that is not part of the peak.
    CHECK(peak >= footprint.private_bytes + (loader::objects_are_metered() ? footprint.code_bytes : 0));
  }
  struct Row {
    std::size_t granted;
    std::size_t grown;  ///< asked for, in steps of one byte
  };
  const std::size_t slack = 64 << 10;  // two loads of one file differ by little
  for (const Row row : {Row{peak + slack, 0}, Row{peak / 2, peak - peak / 2}, Row{0, peak}}) {
    LoadContext context;
    const auto grant = std::make_shared<CountingGrant>(row.granted);
    context.memory = grant;
    context.granted_bytes = row.granted;
    const auto model = TorchLoader({.step = 1}).load(spec, context).value();
    INFO("granted " << row.granted << ", peak " << peak << ", held " << grant->held());
    CHECK((grant->grows() == 0) == (row.grown == 0));
    CHECK(grant->held() >= row.granted + row.grown - std::min(slack, row.grown));
    CHECK(grant->held() <= row.granted + row.grown + slack);
  }
}

TEST_CASE("one content has one digest, under any file name and root") {
  ModelDirectory directory;
  const auto digest = [](const loader::ModelSpec& spec) { return TorchLoader().estimate(spec).value().digest; };
  const auto first = save_layers(directory);
  const auto copy = directory.bytes(ModelDirectory::content(first));
  const auto other = directory.script("def forward(self, x):\n  return x + 1\n");
  CHECK(digest(first).size() == 32);
  CHECK(first.artifact.path != copy.artifact.path);
  CHECK(digest(copy) == digest(first));
  CHECK(digest(other) != digest(first));
}

TEST_CASE("a load that finds no room is undone and says so, wherever that happens") {
  ModelDirectory directory;
  const auto spec = directory.save(
      ModuleBuilder()
          .buffer("t", {1})
          .flag("training", false)
          .define(
              "def __getstate__(self):\n  return (1, False)\n"
              "def __setstate__(self, s: Tuple[int, bool]) -> None:\n"
              "  self.t = torch.ones([100000])\n  self.t = torch.cat([self.t, self.t]) + 1\n  self.training = False\n"
              "def forward(self, x):\n  return x + self.t[:1]\n"));
  std::size_t refusals = 0;
  for (std::size_t n = 0;; n += n < 8 ? 1 : 17) {
    REQUIRE(n < 10'000);
    const auto grant = std::make_shared<CountingGrant>(TorchLoader().estimate(spec).value().private_bytes);
    grant->refuse_from(n);
    LoadContext context;
    context.memory = grant;
    const auto model = TorchLoader({.step = 1}).load(spec, context);
    if (model) {
      CHECK(values_of(call(**model, one_two).value()[0].tensor) == std::vector<float>{3, 4});
      CHECK((*model)->footprint().private_bytes >= 800'000);
      break;
    }
    REQUIRE(model.error().code == ErrorCode::cannot_fit);
    ++refusals;
  }
  CHECK(refusals >= 3);
}

TEST_CASE("a file that is no model is refused in one line") {
  ModelDirectory directory;
  const auto broken = [&](const std::string& content, const std::string& part) {
    const auto spec = directory.bytes(content);
    const auto estimate = TorchLoader().estimate(spec);
    REQUIRE(!estimate);
    CHECK(estimate.error().code == ErrorCode::model_broken);
    INFO(estimate.error().message);
    CHECK(is_one_clean_line(estimate.error().message));
    CHECK(estimate.error().message.find(part) != std::string::npos);
    CHECK(load_error(spec) == estimate.error());
  };
  broken("", "empty");
  broken(std::string(5000, '\x7f'), "no zip");
  broken(ZipWriter().write({{"m/data.pkl", "\x80\x02}."}, {"m/version", "3\n"}}), "state dict");
  broken(ZipWriter().write({{"photo.jpg", "x"}}), "not a TorchScript model");
  broken(ZipWriter().write({{"a/photo.jpg", "x"}}), "not a TorchScript model");
  const std::string whole = ModelDirectory::content(save_layers(directory));
  broken(whole.substr(0, whole.size() / 2), "cut off");
}

TEST_CASE("a model without forward, and code that does not compile, are refused in one line") {
  ModelDirectory directory;
  const auto no_forward = load_error(directory.script("def other(self, x):\n  return x\n"));
  CHECK(no_forward.code == ErrorCode::model_broken);
  CHECK(no_forward.message.find("forward") != std::string::npos);
  const auto good = directory.script("def forward(self, x):\n  return x + 1\n");
  const auto replaced = [&](const std::string& body) {
    const auto error = load_error(directory.rewritten(good, [&](const std::string& name, std::string content) {
      const auto at = content.find("return ");
      if (name.ends_with(".py") && at != std::string::npos) content.replace(at, content.find('\n', at) - at, body);
      return content;
    }));
    CHECK(error.code == ErrorCode::model_broken);
    INFO(error.message);
    CHECK(is_one_clean_line(error.message));
    return error.message;
  };
  CHECK(replaced("return torch.no_such_operator(x)").find("no_such_operator") != std::string::npos);
  replaced("return x +");
  replaced("return " + std::string(20000, '(') + "x" + std::string(20000, ')'));
}

TEST_CASE("records that lie about lengths are refused before they are believed") {
  ModelDirectory directory;
  const auto good =
      directory.save(ModuleBuilder().parameter("w", {1000}).define("def forward(self, x):\n  return x + self.w[:2]\n"));
  const auto with_pickle = [&](const std::function<void(std::string&)>& edit) {
    return load_error(directory.rewritten(good, [&](const std::string& name, std::string content) {
      if (name.ends_with("/data.pkl")) edit(content);
      return content;
    }));
  };
  const auto text = with_pickle([](std::string& pickle) {
    const auto at = pickle.find('X');
    pickle.replace(at + 1, 4, "\xf0\xff\xff\xff");
  });
  CHECK(text.code == ErrorCode::model_broken);
  const auto tensor = with_pickle([](std::string& pickle) {
    const std::string thousand = "M\xe8\x03";
    for (std::size_t at = 0; (at = pickle.find(thousand, at)) != std::string::npos; at += 3) {
      pickle.replace(at, 3, "M\xff\xff");
    }
  });
  CHECK(tensor.code == ErrorCode::model_broken);
  INFO(tensor.message);
  CHECK(tensor.message.find("reaches beyond") != std::string::npos);
}

TEST_CASE("a file that is not the one that was looked up is settling, not broken") {
  ModelDirectory directory;
  auto spec = directory.script("def forward(self, x):\n  return x\n");
  auto other = spec;
  other.artifact.mtime_ns += 1;
  CHECK(load_error(other).code == ErrorCode::settling);
  CHECK(TorchLoader().estimate(other).error().code == ErrorCode::settling);
  std::filesystem::remove(spec.artifact.path);
  CHECK(load_error(spec).code == ErrorCode::settling);
}

TEST_CASE("a load that nobody wants any more ends and says why") {
  ModelDirectory directory;
  const auto spec = directory.script("def forward(self, x):\n  return x\n");
  std::stop_source stop;
  stop.request_stop();
  LoadContext unwanted;
  unwanted.memory = std::make_shared<CountingGrant>(mib << 10);
  unwanted.stop = stop.get_token();
  CHECK(TorchLoader().load(spec, unwanted).error().code == ErrorCode::conflict);
}

TEST_CASE("several threads load at once") {
  ModelDirectory directory;
  const auto spec = save_layers(directory);
  const auto expected = values_of(call(*load(spec), one_two).value()[0].tensor);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        LoadContext context;
        context.memory = std::make_shared<CountingGrant>(mib << 10);
        const auto model = TorchLoader().load(spec, context);
        if (!model) {
          ++wrong;
          continue;
        }
        const auto outputs = call(**model, one_two);
        if (!outputs || values_of((*outputs)[0].tensor) != expected) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a damaged archive loads or is refused, and never harms the process") {
  ModelDirectory directory;
  const std::string whole = ModelDirectory::content(
      directory.save(ModuleBuilder().parameter("w", {100}).define("def forward(self, x):\n  return x + self.w[:2]\n")));
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole;
    if (round % 3 == 0) {
      bytes.resize(random() % bytes.size());
    } else {
      for (int i = 0; i < 1 + round % 5; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto spec = directory.bytes(bytes);
    LoadContext context;
    context.memory = std::make_shared<CountingGrant>(mib << 4, mib << 5);
    const auto model = TorchLoader().load(spec, context);
    if (!model) {
      INFO(model.error().message);
      REQUIRE(is_one_clean_line(model.error().message));
    } else {
      static_cast<void>(call(**model, one_two));
    }
  }
}

}  // namespace mme::test
