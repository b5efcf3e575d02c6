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

/// Loads by one loader, as the server has one for its life, and remembers what that took.
class Loading {
 public:
  explicit Loading(const loader::LoaderOptions& options) : torch_(options) {}

  /// Milliseconds of the load alone; `model` holds what it made.
  double load(const std::filesystem::path& file, std::unique_ptr<loader::Model>& model) {
    loader::ModelSpec spec;
    spec.artifact = test::artifact_of(file);
    loader::LoadContext context;
    loader::Estimate estimate;
    estimate_ms_ = milliseconds_of([&] { estimate = torch_.estimate(spec).value(); });
    std::size_t room = estimate.private_bytes;
    for (const loader::Segment& segment : estimate.segments) room += segment.bytes;
    context.memory = std::make_shared<test::CountingGrant>(room);
    malloc_trim(0);  // a warm heap makes a copying load look six times as fast as it is
    return milliseconds_of([&] { model = std::move(torch_.load(spec, context).value()); });
  }
  [[nodiscard]] double estimate_ms() const { return estimate_ms_; }

 private:
  loader::TorchLoader torch_;
  double estimate_ms_ = 0;
};

double time_alone(const std::filesystem::path& file, const loader::LoaderOptions& options) {
  std::unique_ptr<loader::Model> model;
  return Loading(options).load(file, model);
}

struct KnownCode {
  Samples first, other, common, estimate;
};

/// A model of a new architecture, then others of its code beside it: with weights of their own, and with all but one.
void known_code(const std::filesystem::path& folder, KnownCode& samples) {
  Loading loading({.prefault = false});
  std::unique_ptr<loader::Model> first, other, common;
  samples.first.add(loading.load(folder / "stack.pt", first));
  if (first->footprint().way != loader::LoadWay::mapped) {
    std::printf("not mapped: %s\n", first->footprint().way_reason.c_str());
  }
  samples.other.add(loading.load(folder / "other.pt", other));
  samples.estimate.add(loading.estimate_ms());
  samples.common.add(loading.load(folder / "common.pt", common));
}

}  // namespace

void load() {
  const test::TempDir folder;
  const auto file = folder.path() / "stack.pt";
  save_stack(file, kStackLayers);
  save_stack(folder.path() / "other.pt", kStackLayers, {.factor = 3.01});  // no layer equals another
  save_stack(folder.path() / "common.pt", kStackLayers, {.last_factor = 5});
  const std::vector<char> from(kStackBytes, 'a');
  std::vector<char> to(kStackBytes, 'b');
  Samples copied, plain, prefaulted;
  KnownCode mapped;
  for (int round = 0; round < 7; ++round) {
    malloc_trim(0);
    copied.add(milliseconds_of([&] { std::memcpy(to.data(), from.data(), kStackBytes); }));
    plain.add(time_alone(file, {.map = loader::MapPolicy::off}));
    known_code(folder.path(), mapped);
    prefaulted.add(time_alone(file, {}));
  }
  const double limit = copied.median();
  print_row("load: memcpy of 400 MiB", "ms", limit, copied, 0, "-");
  print_row("load: mapped, new architecture", "ms", limit, mapped.first, limit / 12, "<= 1/12");
  print_row("load: mapped, known architecture", "ms", limit, mapped.other, limit / 80, "<= 1/80");
  print_row("load: known, first-time comparison", "ms", limit, mapped.common, 0, "-");
  print_row("load: estimate() of a known one", "ms", limit, mapped.estimate, 0, "-");
  print_row("load: new, prefaulted", "ms", limit, prefaulted, 0, "-");
  print_row("load: new, copied", "ms", limit, plain, 0, "-");
}

}  // namespace mme::bench
