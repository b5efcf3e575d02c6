// first_answer, cold_disk, isolation: what a client sees of loads.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/bench/bench_client.hpp"
#include "tests/bench/bench_models.hpp"
#include "tests/bench/bench_row.hpp"

namespace mme::bench {
namespace {

using test::HttpClient;
using test::Json;
using test::ServerProcess;
using test::TempDir;
using namespace std::chrono_literals;

constexpr int kRounds = 7;

/// Out of the page cache, so that the disk has to be read again.
void forget(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  fsync(descriptor);
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  close(descriptor);
}

double read_through(const std::filesystem::path& file) {
  std::vector<char> portion(std::size_t{1} << 20);
  return milliseconds_of([&] {
    const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    while (read(descriptor, portion.data(), portion.size()) > 0) {
    }
    close(descriptor);
  });
}

double steady(HttpClient& client, const std::string& body) {
  Samples all;
  for (int i = 0; i < 15; ++i) all.add(milliseconds_of([&] { must_answer(client, "stack", body); }));
  return all.median();
}

std::vector<std::string> stack_settings(bool prefault) {
  return {"--memory-budget", "1GiB", "--set", std::string("cache.prefault=") + (prefault ? "true" : "false")};
}

}  // namespace

void first_answer() {
  struct Setting {
    const char* name;
    bool prefault;
    bool known_code;  ///< another model of the same code stays in memory
  };
  const TempDir folder;
  save_stack(folder.path() / "stack.pt", kStackLayers);
  save_stack(folder.path() / "other.pt", kStackLayers, {.factor = 3});
  const std::string body = row_of(2048);
  for (const Setting& setting :
       {Setting{", prefault", true, false}, Setting{", no prefault", false, false},
        Setting{", prefault, known", true, true}, Setting{", no prefault, known", false, true}}) {
    ServerProcess server(folder.path(), stack_settings(setting.prefault));
    auto client = server.client();
    if (setting.known_code) must_answer(client, "other", body);
    must_answer(client, "stack", body);
    Samples first, second, forward;
    for (int round = 0; round < kRounds; ++round) {
      forward.add(steady(client, body));
      test::unload(client, "stack");
      first.add(milliseconds_of([&] { must_answer(client, "stack", body); }));
      second.add(milliseconds_of([&] { must_answer(client, "stack", body); }));
    }
    const double limit = forward.median();
    const std::string how = setting.name;
    print_row("first_answer" + how, "ms", limit, first, 1.05 * limit + 2, "1.05 x + 2 ms");
    print_row("second_answer" + how, "ms", limit, second, 1.05 * limit, "1.05 x");
  }
}

void cold_disk() {
  const TempDir folder;
  const auto file = folder.path() / "stack.pt";
  save_stack(file, kStackLayers);
  const std::string body = row_of(2048);
  for (const bool prefault : {true, false}) {
    ServerProcess server(folder.path(), stack_settings(prefault));
    auto client = server.client();
    must_answer(client, "stack", body);
    Samples read, first;
    const double forward = steady(client, body);
    for (int round = 0; round < kRounds; ++round) {
      test::unload(client, "stack");
      forget(file);
      read.add(read_through(file));
      forget(file);
      first.add(milliseconds_of([&] { must_answer(client, "stack", body); }));
    }
    const double limit = std::max(read.median(), forward);
    print_row(std::string("cold_disk") + (prefault ? ", prefault" : ", no prefault"), "ms", limit, first, 1.1 * limit,
              "1.1 x");
    std::printf("  reading %.0f ms, a forward %.0f ms\n", read.median(), forward);
  }
}

void isolation() {
  const TempDir folder;
  test::install(folder.path(), {{"hot", "mlp"}, {"a", "big64_0"}, {"b", "big64_1"}});
  ServerProcess server(folder.path(), {"--memory-budget", "1GiB"});
  auto client = server.client();
  const std::string body = row_of(64);
  must_answer(client, "hot", body);
  Samples quiet, disturbed;
  const auto p99 = [&] {
    Samples all;
    const auto until = std::chrono::steady_clock::now() + 4s;
    while (std::chrono::steady_clock::now() < until)
      all.add(milliseconds_of([&] { must_answer(client, "hot", body); }));
    return all.at(0.99);
  };
  const std::string two = test::two_floats().dump();
  for (int round = 0; round < 4; ++round) {
    quiet.add(p99());
    std::atomic<bool> going{true};
    std::thread misses([&] {
      auto other = server.client();
      for (int i = 0; going; ++i) {
        const std::string model = i % 2 == 0 ? "a" : "b";
        test::unload(other, model);
        must_answer(other, model, two);
        std::this_thread::sleep_for(100ms);
      }
    });
    disturbed.add(p99());
    going = false;
    misses.join();
  }
  const double limit = quiet.median();
  print_row("isolation: p99 beside misses", "ms", limit, disturbed, 1.1 * limit + 1, "1.1 x + 1 ms");
}

}  // namespace mme::bench
