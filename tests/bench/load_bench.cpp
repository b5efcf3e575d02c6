// load: how long a load takes, file in the page cache, against copying its bytes.
#include <malloc.h>

#include <cstring>
#include <memory>

#include "loader/torch/torch_loader.hpp"
#include "tests/bench/bench_models.hpp"
#include "tests/bench/bench_row.hpp"
#include "tests/support/server_process.hpp"
#include "tests/torch/counting_grant.hpp"
#include "tests/torch/file_fixture.hpp"

namespace mme::bench {
namespace {

std::unique_ptr<loader::Model> load_model(const std::filesystem::path& file, const loader::LoaderOptions& options) {
  loader::ModelSpec spec;
  spec.artifact = test::artifact_of(file);
  const loader::TorchLoader torch(options);
  loader::LoadContext context;
  context.memory = std::make_shared<test::CountingGrant>(torch.estimate(spec).value().private_bytes);
  return std::move(torch.load(spec, context).value());
}

/// A warm heap makes a copying load look six times as fast as it is.
double cold_heap(const std::function<void()>& work) {
  malloc_trim(0);
  return milliseconds_of(work);
}

}  // namespace

void load() {
  const test::TempDir folder;
  const auto file = folder.path() / "stack.pt";
  save_stack(file, kStackLayers);
  const std::vector<char> from(kStackBytes, 'a');
  std::vector<char> to(kStackBytes, 'b');
  Samples copied, plain, mapped, prefaulted;
  for (int round = 0; round < 7; ++round) {
    copied.add(cold_heap([&] { std::memcpy(to.data(), from.data(), kStackBytes); }));
    std::unique_ptr<loader::Model> model;
    plain.add(cold_heap([&] { model = load_model(file, {.map = loader::MapPolicy::off}); }));
    model.reset();
    mapped.add(cold_heap([&] { model = load_model(file, {.prefault = false}); }));
    if (model->footprint().way != loader::LoadWay::mapped) {
      std::printf("not mapped: %s\n", model->footprint().way_reason.c_str());
    }
    model.reset();
    prefaulted.add(cold_heap([&] { model = load_model(file, {}); }));
  }
  const double limit = copied.median();
  print_row("load: memcpy of 400 MiB", "ms", limit, copied, 0, "-");
  print_row("load: mapped, new architecture", "ms", limit, mapped, limit / 12, "<= 1/12");
  print_row("load: the same, prefaulted", "ms", limit, prefaulted, 0, "-");
  print_row("load: copied", "ms", limit, plain, 0, "-");
}

}  // namespace mme::bench
