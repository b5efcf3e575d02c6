// memory_return, budget_truth: what the kernel says the server holds.
#include "tests/bench/bench_models.hpp"
#include "tests/bench/bench_row.hpp"
#include "tests/e2e/memory_watch.hpp"
#include "tests/e2e/mixed_load.hpp"

namespace mme::bench {
namespace {

using namespace std::chrono_literals;
using test::Json;
using test::kMiB;
using test::ServerProcess;
using test::TempDir;

double anonymous_mib(const ServerProcess& server) {
  std::this_thread::sleep_for(300ms);  // the pause between two trims, and a little
  return static_cast<double>(test::proportional_bytes(server.pid(), "Pss_Anon:")) / kMiB;
}

void models_in_turn() {
  const TempDir folder;
  std::map<std::string, std::string> models;
  for (int i = 0; i < 8; ++i) models["m" + std::to_string(i)] = "mlp";
  test::install(folder.path(), models);
  ServerProcess server(folder.path());
  auto client = server.client();
  const auto cycles = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const std::string model = "m" + std::to_string(i % 8);
      test::load(client, model);
      test::infer(client, model, test::matrix(1 + i % 64, 64));
      test::unload(client, model);
    }
  };
  cycles(100);
  const double warm = anonymous_mib(server);
  Samples after;
  for (int i = 0; i < 5; ++i) {
    cycles(200);
    after.add(anonymous_mib(server));
  }
  print_row("memory_return: 1,000 cycles of MLPs", "MiB", warm, after, warm + 1, "+ 1 MiB");
}

void image_sizes() {
  const TempDir folder;
  save_convolutions(folder.path() / "net.pt");
  ServerProcess server(folder.path());
  auto client = server.client();
  const auto image = [&](long side) {
    std::vector<float> data(static_cast<std::size_t>(3 * side * side), 0.5F);
    const Json request{{"inputs", {test::tensor("x", {1, 3, side, side}, "FP32", std::move(data))}}};
    if (test::infer(client, "net", request).status != 200) throw std::runtime_error("no answer");
  };
  image(16);
  const double warm = anonymous_mib(server);
  for (long side = 17; side < 267; ++side) image(side > 140 ? side - 124 : side);
  Samples after;
  after.add(anonymous_mib(server));
  const double reserve = server.metric("mme_memory_reserve_bytes") / kMiB;
  print_row("memory_return: 250 images, CNN", "MiB", warm, after, warm + reserve, "+ the reserve");
}

}  // namespace

void memory_return() {
  models_in_turn();
  image_sizes();
}

void budget_truth() {
  constexpr std::size_t kBudget = 100 * kMiB;
  const TempDir folder;
  test::install(folder.path(), test::mixed_models());
  ServerProcess server(folder.path(), test::mixed_settings(kBudget));
  test::touch_libraries(server);
  const std::size_t base = test::proportional_bytes(server.pid());
  test::Tally tally;
  test::MemoryWatch watch(server);
  test::run_mixed(server, tally, 20s);
  watch.stop();
  const double reserve = server.metric("mme_memory_reserve_bytes") / kMiB;
  Samples kinds, process;
  kinds.add(watch.kinds() / kMiB);
  process.add(static_cast<double>(watch.process() - base) / kMiB);
  const double budget = kBudget / kMiB;
  print_row("budget_truth: sum of kinds", "MiB", budget, kinds, budget, "<= budget");
  print_row("budget_truth: PSS - base", "MiB", budget + reserve, process, budget + reserve, "<= budget+reserve");
  std::printf("  %d right, %d refused, %d wrong, %d samples\n", tally.right.load(), tally.refused.load(),
              tally.wrong.load(), watch.samples());
}

}  // namespace mme::bench
