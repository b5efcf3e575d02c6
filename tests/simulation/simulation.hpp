// One seeded schedule through the real ledger and shell: random callers, failures, lies, growth, unloads, budgets.
// Single-threaded on a manual clock, so that a seed always does the same; checks the books after each step.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/cache/bench.hpp"

namespace mme::test {

class Simulation {
 public:
  /// `trace`: print each step.
  Simulation(std::uint64_t seed, bool trace);
  /// Runs so many steps and then lets everything end. Throws std::logic_error when an invariant breaks.
  void run(int steps);
  /// What happened, for those who ask whether anything did.
  [[nodiscard]] const Diary& diary() const noexcept { return bench_.diary; }

 private:
  struct Running {
    Bench::Who who;
    std::shared_ptr<loader::MemoryGrant> grant;
    std::size_t held = 0;
    std::size_t peak = 0;
    bool lingers = false;  ///< far past its deadline, maybe
  };
  struct Output {
    std::shared_ptr<loader::MemoryGrant> grant;
    std::size_t held = 0;
  };

  void make_models();
  FakeArtifact random_artifact();
  void step();
  void acquire();
  void load();
  void unload();
  void leave();
  void end_call();
  void grow();
  void shrink();
  void keep();
  void drop_output();
  void claim_body();
  void change_budget();
  void change_artifact();
  void run_task();
  void look();
  void pass_time();
  void collect();
  void require(bool holds, const std::string& what) const;
  void check_answers();
  void wind_down();
  void describe() const;

  std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  ModelSpec spec(std::size_t model) const;
  void say(const std::string& what) const;
  static CacheOptions options_for(std::mt19937_64& random);

  std::mt19937_64 random_;
  bool trace_;
  CacheOptions options_;
  Bench bench_;
  std::vector<std::int64_t> stamps_;  ///< of the models' artifacts
  std::vector<bool> pinned_;
  std::vector<bool> offline_;
  std::vector<Bench::Who> callers_;  ///< not answered yet
  std::vector<Bench::Who> left_;     ///< must never be answered
  std::vector<Running> running_;
  std::vector<Output> outputs_;
  std::vector<std::shared_ptr<loader::MemoryGrant>> bodies_;
};

}  // namespace mme::test
