// Our own reader against libtorch's: the same model bit for bit, whichever way its weights came in.
#include <filesystem>
#include <map>

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

/// Every weight that can be is mapped.
constexpr LoaderOptions map_all{.map_from = 0};

fs::path fixture(const std::string& name) {
  return fs::path(MME_FIXTURES) / (name + ".pt");
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
      {"interfaces", LoadWay::mapped, ""},
      {"own_state", LoadWay::mapped, ""},
      {"frozen", LoadWay::mapped, ""},
      {"frozen_preserved", LoadWay::mapped, ""},
      {"lite", LoadWay::mapped, ""},
      {"quantized_linear", LoadWay::mapped, ""},
      {"quantized_conv", LoadWay::mapped, ""},
      {"newer_layout", LoadWay::mapped, ""},
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
  CHECK(footprint.private_bytes == footprint.mapped_bytes);
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

}  // namespace mme::test
