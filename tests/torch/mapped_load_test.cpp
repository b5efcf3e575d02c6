// Our own reader against libtorch's: the same model bit for bit, whichever way its weights came in.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "loader/torch/file_lease.hpp"
#include "loader/torch/torch_loader.hpp"
#include "tests/support/catch.hpp"
#include "tests/torch/file_fixture.hpp"
#include "tests/torch/module_compare.hpp"
#include "tests/torch/torch_support.hpp"

namespace mme::test {
namespace {

namespace fs = std::filesystem;
using loader::LoaderOptions;
using loader::LoadWay;

const loader::Shape two_by_four{2, 4};
constexpr std::size_t mib = std::size_t{1} << 20;

std::unique_ptr<loader::Model> load_as(const fs::path& file, const LoaderOptions& options) {
  start_torch();
  loader::ModelSpec spec;
  spec.artifact = identify(file);
  return load(spec, options);
}

/// Every weight that can be is mapped, those in graphs too.
constexpr LoaderOptions map_all{.map_from = 0, .share = false};

fs::path fixture(const std::string& name) {
  return fs::path(MME_FIXTURES) / (name + ".pt");
}

/// Four rows of answers from every weight of a file of 9 MiB.
loader::ModelSpec save_large(ModelDirectory& directory) {
  return directory.save(
      ModuleBuilder()
          .parameter("w", {1024, 1024}, 0.5F)
          .parameter("v", {1024, 1024}, 0.25F)
          .parameter("b", {256, 1024}, 2)
          .define("def forward(self, x):\n"
                  "  return torch.mm(torch.mm(x.repeat([1, 512]), self.w), self.v).sum(1) + self.b.sum()\n"));
}

loader::TensorMap two_rows() {
  return {{"x", floats({2, 2}, {1, 2, 3, 4})}};
}

}  // namespace

TEST_CASE("every kind of archive is read as libtorch reads it, and says which way") {
  struct Kind {
    const char* name;
    LoadWay way;
    const char* reason;
  };
  const Kind kinds[] = {
      {"scripted", LoadWay::mapped, ""},
      {"traced", LoadWay::mapped, ""},
      {"train_mode", LoadWay::mapped, ""},
      {"views", LoadWay::mapped, ""},
      {"types", LoadWay::mapped, ""},
      {"containers", LoadWay::mapped, ""},
#ifndef MME_SANITIZED  // libtorch leaks the type of each interface that it compiles
      {"interfaces", LoadWay::mapped, ""},
#endif
      {"own_state", LoadWay::mapped, ""},
      {"frozen", LoadWay::mapped, ""},
      {"frozen_preserved", LoadWay::mapped, ""},
      {"lite", LoadWay::mapped, ""},
      {"quantized_linear", LoadWay::mapped, ""},
      {"quantized_conv", LoadWay::mapped, ""},
      {"newer_layout", LoadWay::mapped, ""},
      {"newer_scripted", LoadWay::mapped, ""},
      {"newer_traced", LoadWay::mapped, ""},
      {"newer_train_mode", LoadWay::mapped, ""},
      {"newer_views", LoadWay::mapped, ""},
      {"newer_types", LoadWay::mapped, ""},
      {"newer_containers", LoadWay::mapped, ""},
      {"newer_own_state", LoadWay::mapped, ""},
      {"newer_frozen", LoadWay::mapped, ""},
      {"newer_frozen_preserved", LoadWay::mapped, ""},
      {"newer_lite", LoadWay::mapped, ""},
      {"partly_compressed", LoadWay::mapped, "1 weights compressed or unaligned"},
      {"compressed", LoadWay::copied, "compressed or unaligned"},
      {"unaligned", LoadWay::copied, "compressed or unaligned"},
      {"old_version", LoadWay::plain, "file version 2"},
      {"old_quantized_conv", LoadWay::plain, "old quantized convolution"},
  };
  for (const Kind& kind : kinds) {
    INFO(kind.name);
    const auto file = fixture(kind.name);
    const auto model = load_as(file, map_all);
    CHECK(model->footprint().way == kind.way);
    CHECK(model->footprint().way_reason == kind.reason);
    CHECK((model->footprint().mapped_bytes > 0) == (kind.way == LoadWay::mapped));
    CHECK(difference_from_plain(*model, file.string(), two_by_four) == "");
    const auto copied = load_as(file, {});
    CHECK(copied->footprint().way == (kind.way == LoadWay::plain ? LoadWay::plain : LoadWay::copied));
    CHECK(difference_from_plain(*copied, file.string(), two_by_four) == "");
  }
}

TEST_CASE("models that write through lists, chosen modules and objects keep what they wrote") {
  for (const std::string name : {
           "average_writer",
#ifndef MME_SANITIZED  // libtorch leaks the type of each interface that it compiles
           "chosen_writer",
           "hidden_writer",
#endif
       }) {
    INFO(name);
    const auto model = load_as(fixture(name), map_all);
    CHECK_FALSE(model->stateless());
    CHECK(difference_from_plain(*model, fixture(name).string(), two_by_four) == "");
  }
}

TEST_CASE("every example model and every harmless test model is read as libtorch reads it") {
  start_torch();
  const ModelDirectory directory;
  auto files = write_example_kinds(directory.folder().string());
  const auto test_models = write_safe_test_models(directory.folder().string());
  files.insert(files.end(), test_models.begin(), test_models.end());
  CHECK(files.size() > 40);
  for (const auto& file : files) {
    INFO(fs::path(file).stem().string());
    CHECK(difference_from_plain(*load_as(file, map_all), file) == "");
  }
}

TEST_CASE("a mapped load takes the file's pages and no second copy, and they are back when the model is gone") {
  ModelDirectory directory;
  const auto spec = directory.save(ModuleBuilder()
                                       .parameter("w", {2048, 1024}, 2)
                                       .parameter("b", {1024}, 3)
                                       .define("def forward(self, x):\n  return x + self.w[0, :2] + self.b[:2]\n"));
  const std::size_t weights = 8 * mib + 4096;
  const auto estimate = loader::TorchLoader().estimate(spec).value();
  const auto grant = std::make_shared<CountingGrant>(estimate.private_bytes, estimate.private_bytes);
  static_cast<void>(call(*load(spec), {{"x", floats({2}, {1, 2})}}));  // libtorch's own tables fill up
  const std::size_t accounts = loader::MemoryAccount::live();
  loader::LoadContext context;
  context.memory = grant;
  auto model = loader::TorchLoader().load(spec, context).value();
  const auto footprint = model->footprint();
  CHECK(footprint.way == LoadWay::mapped);
  CHECK(footprint.mapped_bytes >= weights);
  CHECK(footprint.mapped_bytes <= weights + 3 * 4096);
  CHECK(bytes_of(footprint).weights == footprint.mapped_bytes);
  CHECK(maps_of(spec.artifact.path) == 1);
  CHECK(values_of(call(*model, {{"x", floats({2}, {1, 2})}}).value()[0].tensor) == std::vector<float>{6, 7});
  model.reset();
  CHECK(maps_of(spec.artifact.path) == 0);
  CHECK(loader::MemoryAccount::live() == accounts);
}

TEST_CASE("weights are in memory when the load ends, unless prefault is off") {
  ModelDirectory directory;
  const auto spec = directory.save(
      ModuleBuilder().parameter("w", {2048, 1024}, 2).define("def forward(self, x):\n  return x + self.w[0, :2]\n"));
  const auto there = [&](bool prefault) {
    const auto model = load(spec, {.prefault = prefault});
    CHECK(mapped_bytes(spec.artifact.path, "Anonymous") == 0);
    return mapped_bytes(spec.artifact.path, "Rss");
  };
  CHECK(there(true) >= 8 * mib);
  CHECK(there(false) < mib);
}

TEST_CASE("an output that is a weight is copied out of the map") {
  ModelDirectory directory;
  const auto spec = directory.save(
      ModuleBuilder().parameter("w", {4}, 2).define("def forward(self, x):\n  return self.w, self.w[1:3]\n"));
  auto model = load(spec, map_all);
  REQUIRE(model->footprint().way == LoadWay::mapped);
  const auto outputs = call(*model, {{"x", floats({2}, {1, 2})}}).value();
  model.reset();
  CHECK(maps_of(spec.artifact.path) == 0);
  CHECK(values_of(outputs[0].tensor) == std::vector<float>{2, 2, 2, 2});
  CHECK(values_of(outputs[1].tensor) == std::vector<float>{2, 2});
}

TEST_CASE("C14: a model whose file is changed in any way while it is served gives unchanged answers") {
  ModelDirectory directory;
  const std::function<void(const std::string&)> changes[] = {
      [](const std::string& file) { fs::resize_file(file, 0); },
      [](const std::string& file) { std::ofstream(file, std::ios::binary) << std::string(9 * mib, 'z'); },
      [](const std::string& file) { std::fstream(file, std::ios::in | std::ios::out) << std::string(9 * mib, 'z'); },
      [](const std::string& file) {
        std::ofstream(file + ".new") << "z";
        fs::rename(file + ".new", file);
      },
      [](const std::string& file) { fs::remove(file); },
  };
  for (const auto& change : changes) {
    const auto spec = save_large(directory);
    const auto model = load(spec);
    if (model->footprint().way_reason == "no read lease") {
      WARN("no read leases on this file system");
      return;
    }
    REQUIRE(model->footprint().way == LoadWay::mapped);
    const auto expected = values_of(call(*model, two_rows()).value()[0].tensor);
    std::atomic<bool> done{false};
    std::atomic<int> calls{0}, wrong{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 2; ++i) {
      callers.emplace_back([&] {
        do {
          const auto outputs = call(*model, two_rows());
          if (!outputs || values_of((*outputs)[0].tensor) != expected) ++wrong;
          ++calls;
        } while (!done);
      });
    }
    while (calls < 4) std::this_thread::yield();
    change(spec.artifact.path);
    const int before = calls;
    while (calls < before + 4) std::this_thread::yield();
    done = true;
    for (auto& caller : callers) caller.join();
    CHECK(wrong == 0);
    CHECK(load_error(spec).code == loader::ErrorCode::settling);
  }
}

TEST_CASE("a call that met pages which the file no longer has is settling, not an answer") {
  ModelDirectory directory;
  const auto spec = save_large(directory);
  const std::ofstream writer(spec.artifact.path, std::ios::binary | std::ios::app);  // so there is no lease
  CHECK(load(spec)->footprint().way_reason == "no read lease");
  const auto model = load(spec, {.prefault = false, .map = loader::MapPolicy::trusted});
  REQUIRE(model->footprint().way == LoadWay::mapped);
  REQUIRE(call(*model, two_rows()).has_value());
  fs::resize_file(spec.artifact.path, mib);
  const auto first = call(*model, two_rows());
  REQUIRE(!first);
  CHECK(first.error().code == loader::ErrorCode::settling);
  CHECK(call(*model, two_rows()).error().code == loader::ErrorCode::settling);
}

TEST_CASE("a model that may write to its state leaves its file before the first call") {
  ModelDirectory directory;
  const auto spec = directory.save(
      ModuleBuilder().buffer("n", {mib}).define("def forward(self, x):\n  self.n += 1\n  return x + self.n[:2]\n"));
  const auto model = load(spec);
  CHECK(model->footprint().way == LoadWay::copied);
  CHECK(model->footprint().mapped_bytes == 0);
  CHECK(maps_of(spec.artifact.path) == 0);
  CHECK(loader::FileLease::held() == 0);
  fs::resize_file(spec.artifact.path, 0);
  for (float n = 1; n < 4; ++n) {
    CHECK(values_of(call(*model, {{"x", floats({2}, {0, 0})}}).value()[0].tensor) == std::vector<float>{n, n});
  }
}

TEST_CASE("C13: a file that is opened for writing during its load is settling, whatever came of that") {
  ModelDirectory directory;
  const auto spec = directory.save(ModuleBuilder()
                                       .buffer("w", {mib}, 1)
                                       .flag("training", false)
                                       .define("def __getstate__(self):\n  return (self.w, self.training)\n"
                                               "def __setstate__(self, s: Tuple[Tensor, bool]) -> None:\n"
                                               "  for i in range(300):\n    s[0].add_(1)\n"
                                               "  self.w = s[0]\n  self.training = s[1]\n"
                                               "def forward(self, x):\n  return x + self.w[:2]\n"));
  for (int attempt = 0; attempt < 50; ++attempt) {  // the writer may come late
    std::atomic<bool> loading{true};
    std::thread writer([&] {
      while (maps_of(spec.artifact.path) == 0 && loading) std::this_thread::yield();
      std::fstream(spec.artifact.path, std::ios::in | std::ios::out);  // and writes nothing
    });
    loader::LoadContext context;
    context.memory = std::make_shared<CountingGrant>(64 * mib);
    const auto model = loader::TorchLoader().load(spec, context);
    loading = false;
    writer.join();
    if (model) continue;
    CHECK(model.error().code == loader::ErrorCode::settling);
    return;
  }
  FAIL("no load noticed its writer");
}

}  // namespace mme::test
