// many: ten thousand tiny models of ten architectures in one gibibyte, and what finding one among them costs.
#include <torch/script.h>

#include <random>

#include "loader/torch/torch_loader.hpp"
#include "tests/bench/bench_client.hpp"
#include "tests/bench/tiny_models.hpp"
#include "tests/torch/counting_grant.hpp"
#include "tests/torch/file_fixture.hpp"

namespace mme::bench {
namespace {

constexpr int kMany = 10'000;
constexpr int kHot = 100;
constexpr int kHits = 2'000;

std::string tiny_name(int number) {
  return "t" + std::to_string(number);
}

/// What the code of ten architectures takes: that of one, loaded by itself, ten times.
double code_bytes(const std::filesystem::path& file) {
  loader::ModelSpec spec;
  spec.artifact = test::artifact_of(file);
  const loader::TorchLoader torch;
  loader::LoadContext context;
  context.memory = std::make_shared<test::CountingGrant>(torch.estimate(spec).value().private_bytes);
  const auto model = std::move(torch.load(spec, context).value());
  double code = static_cast<double>(model->footprint().code_bytes);
  for (const loader::Segment& segment : model->footprint().segments) {
    if (segment.code) code += static_cast<double>(segment.bytes);
  }
  return TinyModels::kArchitectures * code;
}

/// Microseconds of a hit, over one connection: p50 of calls of models below `among`, in turn or at random.
Samples hits(const test::ServerProcess& server, int among, bool at_random, const std::string& body) {
  auto client = server.client();
  for (int number = 0; number < std::min(among, kHot); ++number) must_answer(client, tiny_name(number), body);
  std::minstd_rand random(1);
  Samples medians;
  for (int part = 0; part < 5; ++part) {
    Samples all;
    for (int i = 0; i < kHits / 5; ++i) {
      const int number = at_random ? static_cast<int>(random() % static_cast<unsigned>(among)) : i % among;
      const std::string model = tiny_name(number);
      all.add(1000 * milliseconds_of([&] { must_answer(client, model, body); }));
    }
    medians.add(all.median());
  }
  return medians;
}

void write_all(const std::filesystem::path& folder, const TinyModels& models) {
  for (int number = 0; number < kMany; ++number) {
    const auto file = folder / (tiny_name(number) + ".pt");
    models.write(file, number);
    test::make_old(file);
  }
}

/// Every 500th model against libtorch itself.
int wrong_answers(const test::ServerProcess& server, const std::filesystem::path& folder, const std::string& body) {
  auto client = server.client();
  int wrong = 0;
  for (int number = 3; number < kMany; number += 501) {
    torch::jit::Module model = torch::jit::load((folder / (tiny_name(number) + ".pt")).string());
    const double expected = model.forward({torch::full({1, TinyModels::kWidth}, 0.01)}).toTensor()[0][0].item<double>();
    if (!close_to(first_number(must_answer(client, tiny_name(number), body)), expected)) ++wrong;
  }
  return wrong;
}

void print_memory(const test::ServerProcess& server, double base, double weights_each, double code) {
  const double held = server.metric("mme_models{state=\"ready\"}");
  const double anon = static_cast<double>(test::proportional_bytes(server.pid(), "Pss_Anon:")) - base;
  const double limit = kMany * weights_each + code;
  const double goal = held < kMany ? 1 : limit + kMany * 100e3;  // with some of them missing nothing is met
  print_row("many: anonymous memory", "MB", limit / kMegabyte, single(anon / kMegabyte), goal / kMegabyte,
            "+ 100 kB each");
  print_row("many: a model beyond weights", "kB", 100, single((anon / held - weights_each) / 1e3), 100, "<= 100 kB");
  std::printf("  %.0f of %d in memory, %.1f kB of weights each, code of ten architectures %.1f MB\n", held, kMany,
              weights_each / 1e3, code / kMegabyte);
}

}  // namespace

void many() {
  const test::TempDir folder;
  const TinyModels models;
  const double making = milliseconds_of([&] { write_all(folder.path(), models); });
  const std::string body = row_of(TinyModels::kWidth);
  const double code = code_bytes(folder.path() / "t0.pt");
  test::ServerProcess server(folder.path(), test::set({"cache.memory_budget=1GiB", "log.level=info"}));
  const double base = static_cast<double>(test::proportional_bytes(server.pid(), "Pss_Anon:"));
  const Samples few = hits(server, kHot, false, body);
  std::atomic<int> refused{0};
  const double loading = milliseconds_of([&] {
    spread(server, 4, kMany, [&](test::HttpClient& client, int number) {
      const auto response = client.send("POST", "/v2/models/" + tiny_name(number) + "/infer", body,
                                        {{"Content-Type", "application/json"}});
      if (response.status != 200) ++refused;
    });
  });
  std::this_thread::sleep_for(300ms);
  print_memory(server, base, static_cast<double>(models.weight_bytes()), code);
  const Samples same = hits(server, kHot, false, body);
  const Samples any = hits(server, kMany, true, body);
  print_row("many: hit, the same 100 of 10,000", "us", few.median(), same, 0, "-");
  print_row("many: call, any of 10,000", "us", few.median(), any, 0, "-");
  std::printf("  making %.0f s, loading %.0f s, %d refused, %d wrong answers\n", making / 1000, loading / 1000,
              refused.load(), wrong_answers(server, folder.path(), body));
}

}  // namespace mme::bench
