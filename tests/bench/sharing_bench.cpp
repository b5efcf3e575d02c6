// sharing: what fine-tunes of one backbone take together, against their unique weights.
#include <torch/script.h>

#include <c10/core/InferenceMode.h>

#include <fstream>

#include "scripts/demo/module_builder.hpp"
#include "tests/bench/bench_client.hpp"
#include "tests/bench/incident_models.hpp"
#include "tests/bench/unique_weights.hpp"

namespace mme::bench {
namespace {

constexpr int kFineTunes = 50;
constexpr int kFew = 10;
constexpr int kBackboneLayers = 26;  // of 2.25 MiB each: 59 MiB
constexpr std::int64_t kBackboneWidth = 768;
constexpr int kTunedLayer = kBackboneLayers - 1;

std::string tuned_name(int number) {
  return "tune" + std::to_string(number);
}

using Answer = std::vector<double>;

bool close(const Answer& found, const Answer& expected) {
  return std::equal(found.begin(), found.end(), expected.begin(), expected.end(), close_to);
}

/// Writes the fine-tunes: the same backbone, but for the last layer and the head. Their answers to one request. Those
/// that count keep the number of their calls in a buffer.
class FineTunes {
 public:
  FineTunes(const std::filesystem::path& folder, bool count) : model_(mme::models::new_module("Tuned")) {
    const torch::NoGradGuard no_grad;
    torch::manual_seed(3);
    std::string source = "def forward(self, x):\n";
    for (int i = 0; i < kBackboneLayers; ++i) {
      const std::string name = "w" + std::to_string(i);
      mme::models::add_parameter(model_, name, torch::randn({kBackboneWidth, kBackboneWidth}) * kSpreadOfLayer);
      source += "    x = torch.relu(torch.mm(x, self." + name + "))\n";
    }
    mme::models::add_parameter(model_, "head", torch::randn({kBackboneWidth, 4}));
    model_.register_buffer("calls", torch::zeros({1}));
    if (count) source += "    self.calls.add_(1)\n";
    mme::models::define(model_, source + "    return torch.mm(x, self.head)\n");
    for (int number = 0; number < kFineTunes; ++number) write(folder, number);
    for (torch::Tensor weight : model_.parameters()) weight.normal_(0, kSpreadOfLayer);
    mme::models::save(model_, folder / "stranger.pt");
    test::make_old(folder / "stranger.pt");
  }
  [[nodiscard]] bool right(int number, const Answer& found) const {
    return close(found, answers_.at(static_cast<std::size_t>(number)));
  }
  [[nodiscard]] bool all_differ() const {
    for (std::size_t one = 0; one < answers_.size(); ++one) {
      for (std::size_t other = 0; other < one; ++other) {
        if (close(answers_[one], answers_[other])) return false;
      }
    }
    return true;
  }

 private:
  static constexpr double kSpreadOfLayer = 0.051;  // sqrt(2 / width): numbers keep their size through the layers

  void write(const std::filesystem::path& folder, int number) {
    torch::manual_seed(static_cast<std::uint64_t>(100 + number));
    model_.attr("w" + std::to_string(kTunedLayer)).toTensor().normal_(0, kSpreadOfLayer);
    model_.attr("head").toTensor().normal_();
    const auto file = folder / (tuned_name(number) + ".pt");
    mme::models::save(model_, file);
    test::make_old(file);
    const torch::Tensor answer = model_.forward({torch::full({1, kBackboneWidth}, 0.01)}).toTensor().to(torch::kDouble);
    answers_.emplace_back(answer.data_ptr<double>(), answer.data_ptr<double>() + answer.numel());
  }

  torch::jit::Module model_;
  std::vector<Answer> answers_;
};

double page_tables(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPTE:")) return std::stod(line.substr(6)) * 1024;
  }
  return 0;
}

void measure(const std::filesystem::path& folder, const FineTunes& tunes, int count, const char* what) {
  // All of them fit even when nothing is shared, so that the row says by how much too much they take.
  test::ServerProcess server(folder, test::set({"cache.memory_budget=4GiB"}));
  spread(server, 4, 40, [](test::HttpClient& client, int) { must_answer(client, "toucher", row_of(1)); });
  // The same code with other weights: what the libraries touch for it, once in a process, is none of the fine-tunes'.
  spread(server, 4, 40, [](test::HttpClient& client, int) { must_answer(client, "stranger", row_of(kBackboneWidth)); });
  auto admin = server.client();
  test::unload(admin, "toucher");
  test::unload(admin, "stranger");
  std::this_thread::sleep_for(300ms);
  const std::size_t base = test::proportional_bytes(server.pid());
  const double tables_before = page_tables(server.pid());
  std::atomic<int> wrong{0};
  const std::string body = row_of(kBackboneWidth);
  spread(server, 4, 2 * count, [&](test::HttpClient& client, int turn) {
    const int number = turn % count;
    if (!tunes.right(number, numbers(must_answer(client, tuned_name(number), body)))) ++wrong;
  });
  std::this_thread::sleep_for(300ms);
  std::vector<std::filesystem::path> files;
  for (int number = 0; number < count; ++number) files.push_back(folder / (tuned_name(number) + ".pt"));
  const double limit = static_cast<double>(unique_weight_bytes(files)) / kMegabyte;
  const double goal = 1.02 * limit + 0.1 * count;
  const double ours = static_cast<double>(test::proportional_bytes(server.pid()) - base) / kMegabyte;
  print_row("sharing: " + std::to_string(count) + what, "MB", limit, single(ours), goal, "1.02 x + 0.1 each");
  std::printf("  %.0f in memory, %.0f evictions, shared_saved %.0f MB, page tables %.0f kB each, %d wrong answers%s\n",
              server.metric("mme_models{state=\"ready\"}"), server.metric_sum("mme_cache_evictions_total") - 2,
              server.metric("mme_memory_shared_saved_bytes") / kMegabyte,
              (page_tables(server.pid()) - tables_before) / 1e3 / count, wrong.load(),
              tunes.all_differ() ? "" : ", some fine-tunes answer alike");
}

}  // namespace

void sharing() {
  for (const bool counting : {false, true}) {
    const test::TempDir folder;
    const FineTunes tunes(folder.path(), counting);
    save_toucher(folder.path() / "toucher.pt");
    if (!counting) measure(folder.path(), tunes, kFew, " fine-tunes");
    measure(folder.path(), tunes, kFineTunes, counting ? " that count calls" : " fine-tunes");
  }
}

}  // namespace mme::bench
