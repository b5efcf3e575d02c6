// A cache on manual executors and a manual clock, and callers whose answers can be looked at.
// For tests of rules: single-threaded, and the books are checked after each step.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/model_cache.hpp"
#include "tests/support/fake_loader.hpp"
#include "tests/support/manual_executor.hpp"

namespace mme::test {

using namespace std::chrono_literals;
using cache::CacheOptions;
using cache::CacheResult;
using cache::CallRequest;
using cache::EvictionReason;
using cache::Lease;
using loader::ErrorCode;
using loader::ModelSpec;

/// Writes down what the cache tells.
struct Diary final : cache::Observer {
  struct Eviction {
    std::string name;
    EvictionReason reason;
    std::string cause;
  };
  std::vector<Eviction> evictions;
  std::vector<std::string> loads;
  std::vector<std::string> failed_loads;
  std::vector<std::string> quarantines;
  std::vector<std::pair<std::string, cache::StuckWork>> recoveries;
  std::vector<ErrorCode> refusals;
  std::vector<std::size_t> estimates;  ///< of `loads`
  std::vector<std::pair<std::size_t, std::size_t>> drifts;
  std::vector<std::pair<std::size_t, std::size_t>> growths;

  void load_started(const ModelSpec& spec, std::size_t estimated) override {
    loads.push_back(spec.name);
    estimates.push_back(estimated);
  }
  void load_ended(const ModelSpec& spec, std::size_t, std::chrono::nanoseconds, const loader::Error* error) override {
    if (error != nullptr) {
      failed_loads.push_back(spec.name);
    }
  }
  void evicted(const ModelSpec& spec, std::size_t, EvictionReason reason, std::string_view cause) override {
    evictions.push_back({spec.name, reason, std::string(cause)});
  }
  void refused(const ModelSpec&, const loader::Error& error) override { refusals.push_back(error.code); }
  void quarantined(const ModelSpec& spec, cache::StuckWork) override { quarantines.push_back(spec.name); }
  void recovered(const ModelSpec& spec, cache::StuckWork work) override { recoveries.emplace_back(spec.name, work); }
  void size_drifted(const ModelSpec&, std::size_t learned, std::size_t measured) override {
    drifts.emplace_back(learned, measured);
  }
  void model_grew(const ModelSpec&, std::size_t before, std::size_t now) override { growths.emplace_back(before, now); }
};

/// One caller: what it was told, if anything yet.
struct Caller {
  cache::Ticket ticket = 0;
  int answers = 0;
  std::optional<ErrorCode> error;
  std::string message;
  Lease lease;
  bool done = false;  ///< of load and unload

  [[nodiscard]] bool waits() const { return answers == 0; }
  [[nodiscard]] bool runs() const { return static_cast<bool>(lease); }
};

class Bench {
 public:
  explicit Bench(CacheOptions options) {
    options.growth_wait = 0ms;
    cache_ = std::make_unique<cache::ModelCache>(std::move(options), loader, loads.executor(), reaper.executor(), diary,
                                                 [this] { return clock.now(); });
  }
  ~Bench() {
    cache_.reset();
    settle();
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  using Who = std::shared_ptr<Caller>;
  Who acquire(const ModelSpec& spec, CallRequest request = {}) {
    auto who = std::make_shared<Caller>();
    who->ticket = cache_->acquire(spec, request, [who](loader::Result<Lease> answer) {
      ++who->answers;
      if (answer) {
        who->lease = std::move(*answer);
      } else {
        who->error = answer.error().code;
        who->message = answer.error().message;
      }
    });
    check();
    return who;
  }
  Who acquire(const std::string& name, CallRequest request = {}) { return acquire(spec_of(name), request); }
  Who load(const ModelSpec& spec, loader::Deadline deadline = loader::Deadline::max()) {
    auto who = std::make_shared<Caller>();
    who->ticket = cache_->load(spec, deadline, done(who));
    check();
    return who;
  }
  Who load(const std::string& name) { return load(spec_of(name)); }
  Who unload(const std::string& name, loader::Deadline deadline = loader::Deadline::max()) {
    auto who = std::make_shared<Caller>();
    cache_->unload(name, std::nullopt, deadline, done(who));
    check();
    return who;
  }
  /// Acquires, loads what must be loaded, and ends the lease.
  Who call(const std::string& name) {
    Who who = acquire(name);
    settle();
    end(who);
    return who;
  }
  void end(const Who& who) {
    who->lease = Lease();
    check();
  }
  /// As a well-behaved caller ends: telling the peak.
  void finish(const Who& who, std::size_t peak, bool refused = false) {
    auto context = who->lease.context(loader::Deadline::max());
    context.peak_bytes = peak;
    who->lease.finish(context, refused);
    context.memory.reset();
    check();
  }
  /// Runs all work there is.
  void settle() {
    while (loads.run_one() || reaper.run_one()) {
      check();
    }
  }
  void advance(std::chrono::nanoseconds by) {
    clock.advance(by);
    cache_->tick();
    check();
  }
  void check() const {
    if (cache_) {
      cache_->check();
    }
  }
  [[nodiscard]] cache::ModelCache& cache() const { return *cache_; }
  [[nodiscard]] std::optional<cache::EntryStatus> status_of(const std::string& name) const {
    for (const cache::EntryStatus& entry : cache_->status().entries) {
      if (entry.spec.name == name) {
        return entry;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] bool ready(const std::string& name) const {
    const auto status = status_of(name);
    return status && status->state == cache::ModelState::ready;
  }

  ManualClock clock;
  ManualExecutor loads{"loads"};
  ManualExecutor reaper{"reaper"};
  FakeLoader loader;
  Diary diary;

 private:
  static cache::ModelCache::DoneHandler done(const Who& who) {
    return [who](loader::Result<void> answer) {
      ++who->answers;
      who->done = answer.has_value();
      if (!answer) {
        who->error = answer.error().code;
        who->message = answer.error().message;
      }
    };
  }
  std::unique_ptr<cache::ModelCache> cache_;
};

/// Options of a small cache: sizes in tests are single digits to hundreds of bytes.
inline CacheOptions small(std::size_t budget, std::size_t slots = 4, std::size_t loads = 4) {
  CacheOptions options;
  options.budget = budget;
  options.compute_slots = slots;
  options.loads_at_once = loads;
  return options;
}

}  // namespace mme::test
