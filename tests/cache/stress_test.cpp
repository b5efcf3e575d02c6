// The shell under real threads: clients, loaders, a reaper, a ticking clock, and someone who unloads and looks.
// Bounded by counts, not by time; meant to run under ThreadSanitizer and AddressSanitizer too.
#include <atomic>
#include <latch>
#include <random>
#include <thread>

#include "cache/model_cache.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_loader.hpp"
#include "tests/support/thread_executor.hpp"

using namespace mme;
using namespace mme::test;
using namespace std::chrono_literals;
using cache::CacheOptions;
using cache::CallRequest;
using cache::Lease;

namespace {

/// A cache with its pools, and a thread that ticks; whatever is declared first ends last.
class Machine {
 public:
  explicit Machine(const CacheOptions& options)
      : cache(std::make_unique<cache::ModelCache>(options, loader, loads.executor(), reaper.executor(), observer)),
        ticker_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            cache->tick();
            std::this_thread::sleep_for(2ms);
          }
        }) {}
  ~Machine() {
    ticker_.request_stop();
    ticker_.join();
    cache.reset();
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  FakeLoader loader;
  cache::Observer observer;
  ThreadExecutor reaper{"reaper", 1};
  ThreadExecutor loads{"loads", 2};
  ThreadExecutor compute{"compute", 3};
  std::unique_ptr<cache::ModelCache> cache;

 private:
  std::jthread ticker_;
};

struct Outcome {
  std::atomic<int> served{0};
  std::atomic<int> refused{0};
  std::atomic<int> undeclared{0};
};

bool declared(loader::ErrorCode code) {
  using enum loader::ErrorCode;
  switch (code) {
    case all_in_use:
    case cannot_fit:
    case activations:
    case queue_full:
    case conflict:
    case already_loaded:
    case model_unknown:
    case deadline_exceeded: return true;
    default: return false;
  }
}

/// One call from a client's thread: waits until it is over.
void call(Machine& machine, const std::string& name, Outcome& outcome) {
  std::latch over(1);
  CallRequest request;
  request.deadline = loader::Clock::now() + 20s;
  machine.cache->acquire(spec_of(name), request, [&](loader::Result<Lease> answer) {
    if (!answer) {
      ++(declared(answer.error().code) ? outcome.refused : outcome.undeclared);
      over.count_down();
      return;
    }
    auto lease = std::make_shared<Lease>(std::move(*answer));
    machine.compute.post([&, lease] {
      auto context = lease->context(loader::Deadline::max());
      const auto result = lease->model().infer({}, context);
      lease->finish(context, !result.has_value());
      ++(result ? outcome.served : outcome.refused);
      over.count_down();
    });
  });
  over.wait();
}

void clients(Machine& machine, int threads, int calls, int models, Outcome& outcome) {
  std::vector<std::jthread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < calls; ++i) {
        call(machine, "m" + std::to_string(random() % static_cast<unsigned>(models)), outcome);
      }
    });
  }
}

CacheOptions options() {
  CacheOptions options;
  options.budget = 1'000;
  options.activation_floor = 200;
  options.compute_slots = 3;
  options.loads_at_once = 2;
  options.claim_after = 20ms;
  options.growth_wait = 50ms;
  return options;
}

}  // namespace

TEST_CASE("64 clients released at once on a cold model cause one load", "[stress]") {
  for (int round = 0; round < 10; ++round) {
    Machine machine(options());
    machine.loader.put("m0", 100);
    Outcome outcome;
    clients(machine, 64, 1, 1, outcome);
    CHECK(machine.loader.testimony().loads == 1);
    CHECK(outcome.served == 64);
  }
}

TEST_CASE("Twenty twins in room for five: every call is answered, none dies running", "[stress]") {
  Outcome outcome;
  std::shared_ptr<const Testimony> testimony;
  {
    Machine machine(options());
    for (int i = 0; i < 20; ++i) {
      FakeArtifact artifact;
      artifact.estimate.private_bytes = 150;
      artifact.footprint.private_bytes = 150;
      artifact.call_peak = 20;
      artifact.stateless = i % 5 != 0;
      machine.loader.put("m" + std::to_string(i), artifact);
    }
    testimony = machine.loader.share_testimony();
    std::atomic<bool> over{false};
    std::atomic<std::size_t> most{0};
    std::jthread watcher([&] {
      while (!over) {
        most = std::max(most.load(), machine.cache->used().total());
        machine.cache->check();
        std::this_thread::sleep_for(200us);  // the mutex is not fair: whoever polls it leaves others the time
      }
    });
    clients(machine, 8, 150, 20, outcome);
    over = true;
    watcher.join();
    CHECK(most <= 1'000);
  }
  CHECK(outcome.served + outcome.refused == 8 * 150);
  CHECK(outcome.undeclared == 0);
  CHECK(outcome.served > 1'000);
  CHECK(testimony->live == 0);
  CHECK(testimony->died_running == 0);
  CHECK(testimony->died_elsewhere == 0);
  CHECK(testimony->stateful_overlaps == 0);
}

TEST_CASE("Loads, unloads, looks and budgets beside calls: every caller is answered", "[stress]") {
  Outcome outcome;
  std::atomic<int> answered{0};
  std::shared_ptr<const Testimony> testimony;
  {
    Machine machine(options());
    for (int i = 0; i < 4; ++i) {
      machine.loader.put("m" + std::to_string(i), 300);
    }
    testimony = machine.loader.share_testimony();
    std::jthread operators([&] {
      for (int i = 0; i < 300; ++i) {
        const std::string name = "m" + std::to_string(i % 4);
        const auto count = [&](const loader::Result<void>&) { ++answered; };
        machine.cache->load(spec_of(name), loader::Clock::now() + 20s, count);
        machine.cache->unload(name, std::nullopt, loader::Clock::now() + 20s, count);
        machine.cache->with_model(name, std::nullopt, [](const loader::Model& model, const cache::EntryStatus& status) {
          CHECK(model.stateless() == status.stateless);
        });
        CHECK(machine.cache->set_budget(900 + static_cast<std::size_t>(i % 3) * 50).has_value());
        const auto body = machine.cache->claim_body(40);
        CHECK(machine.cache->status().entries.size() <= 100);
        std::this_thread::yield();
      }
    });
    clients(machine, 6, 100, 4, outcome);
    operators.join();
  }
  CHECK(answered == 600);
  CHECK(outcome.served + outcome.refused == 6 * 100);
  CHECK(outcome.undeclared == 0);
  CHECK(testimony->live == 0);
  CHECK(testimony->died_running == 0);
}

TEST_CASE("A call that comes as its model is unloaded for idleness is served", "[stress]") {
  CacheOptions idle = options();
  idle.idle_unload = 1ms;
  Machine machine(idle);
  machine.loader.put("m0", 100);
  Outcome outcome;
  clients(machine, 2, 500, 1, outcome);
  CHECK(outcome.served == 1'000);
}

TEST_CASE("Growth in mid-call waits for the reaper to give back what idle models held", "[stress]") {
  CacheOptions patient = options();
  patient.growth_wait = 10s;
  Machine machine(patient);
  FakeArtifact hungry;
  hungry.call_peak = 500;
  machine.loader.put("m0", hungry);
  for (int i = 1; i < 6; ++i) {
    machine.loader.put("m" + std::to_string(i), 150);
  }
  Outcome outcome;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 6; ++i) {
      call(machine, "m" + std::to_string(i), outcome);
    }
  }
  CHECK(outcome.served == 120);
}
