// allocator: the server under other settings of the C library's allocator: memory it keeps, what a call costs.
#include "tests/bench/bench_client.hpp"
#include "tests/bench/bench_models.hpp"

namespace mme::bench {
namespace {

using Environment = std::map<std::string, std::string>;

struct Variant {
  std::string name;
  Environment environment;
  Samples kept_mapped{}, kept_copied{}, cnn{}, mlp{};
};

constexpr int kRoundsOfVariants = 3;
constexpr int kCycles = 240;
constexpr int kCalls = 1'500;

std::vector<Variant> variants() {
  return {{"as it is (one arena, trim)", {}},
          {"8 arenas, trim", {{"MALLOC_ARENA_MAX", "8"}}},
          {"one arena, no trim", {{"LD_PRELOAD", MME_NO_TRIM}}},
          {"8 arenas, no trim", {{"MALLOC_ARENA_MAX", "8"}, {"LD_PRELOAD", MME_NO_TRIM}}},
          {"fixed M_MMAP_THRESHOLD 128 KiB", {{"MALLOC_MMAP_THRESHOLD_", "131072"}}},
          {"fixed M_TRIM_THRESHOLD 128 KiB", {{"MALLOC_TRIM_THRESHOLD_", "131072"}}}};
}

double anonymous_mb(const test::ServerProcess& server) {
  std::this_thread::sleep_for(300ms);  // the pause between two trims, and a little
  return static_cast<double>(test::proportional_bytes(server.pid(), "Pss_Anon:")) / kMegabyte;
}

/// Loads, calls and unloads of eight MLPs by four clients at once; what stays beyond the value at the start.
double kept(const std::filesystem::path& folder, const Environment& environment, const std::string& map) {
  test::ServerProcess server(folder, test::set({"cache.memory_budget=1GiB", "cache.map=" + map}), environment);
  auto client = server.client();
  must_answer(client, "m0", row_of(256));
  test::unload(client, "m0");
  const double before = anonymous_mb(server);
  spread(server, 4, kCycles, [&](test::HttpClient& own, int number) {
    const std::string model = "m" + std::to_string(number % 8);
    std::vector<float> data(static_cast<std::size_t>(256 * (1 + number % 64)), 0.01F);
    const test::Json request{{"inputs", {test::tensor("x", {1 + number % 64, 256}, "FP32", std::move(data))}}};
    test::infer(own, model, request);
    test::unload(own, model);
  });
  for (int i = 0; i < 8; ++i) test::unload(client, "m" + std::to_string(i));
  return anonymous_mb(server) - before;
}

/// Microseconds of processor time that the server takes for a call, four clients: others on the machine change it less
/// than they change the time on the clock.
double cost(const test::ServerProcess& server, const std::string& model, const std::string& body) {
  const auto calls = [&](int count) {
    spread(server, 4, count, [&](test::HttpClient& client, int) { must_answer(client, model, body); });
  };
  calls(100);
  const double before = test::cpu_seconds(server.pid());
  calls(kCalls);
  return 1e6 * (test::cpu_seconds(server.pid()) - before) / kCalls;
}

void measure(const std::filesystem::path& folder, Variant& variant) {
  variant.kept_mapped.add(kept(folder, variant.environment, "leased"));
  variant.kept_copied.add(kept(folder, variant.environment, "off"));
  test::ServerProcess server(folder, test::set({"cache.memory_budget=1GiB"}), variant.environment);
  // Activations of 256 KiB: above the threshold from which the C library maps blocks when that is fixed.
  constexpr long kSide = 64;
  std::vector<float> pixels(3 * kSide * kSide, 0.5F);
  const test::Json image{{"inputs", {test::tensor("x", {1, 3, kSide, kSide}, "FP32", std::move(pixels))}}};
  variant.cnn.add(cost(server, "net", image.dump()));
  variant.mlp.add(cost(server, "m0", row_of(256)));
}

}  // namespace

void allocator() {
  const test::TempDir folder;
  save_convolutions(folder.path() / "net.pt");
  for (int i = 0; i < 8; ++i) save_layers(folder.path() / ("m" + std::to_string(i) + ".pt"));
  auto all = variants();
  for (int round = 0; round < kRoundsOfVariants; ++round) {
    for (Variant& variant : all) measure(folder.path(), variant);
  }
  std::printf("%-34s %18s %18s %12s %12s\n", "allocator", "kept, mapped MB", "kept, copied MB", "CNN us/call",
              "MLP us/call");
  for (const Variant& variant : all) {
    std::printf("%-34s %18.1f %18.1f %12.0f %12.0f\n", variant.name.c_str(), variant.kept_mapped.median(),
                variant.kept_copied.median(), variant.cnn.median(), variant.mlp.median());
  }
}

}  // namespace mme::bench
