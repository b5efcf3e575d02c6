// One seeded schedule through the real ledger and shell.
// What is random is what callers, loaders and files do; what must hold is checked after each step.
#include "tests/simulation/simulation.hpp"

#include <algorithm>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "tests/support/victims_by_the_book.hpp"

namespace mme::test {

CacheOptions Simulation::options_for(std::mt19937_64& random) {
  const auto pick = [&](std::size_t from, std::size_t to) {
    return std::uniform_int_distribution<std::size_t>(from, to)(random);
  };
  CacheOptions options;
  options.budget = pick(50, 400);
  options.activation_floor = pick(0, options.budget / 4);
  options.compute_slots = pick(1, 4);
  options.loads_at_once = pick(1, 3);
  options.queue_size = pick(1, 12);
  options.room_wait = std::chrono::milliseconds(pick(1'000, 30'000));
  options.claim_after = std::chrono::milliseconds(pick(100, 2'000));
  options.load_timeout = std::chrono::milliseconds(pick(1'000, 60'000));
  if (pick(0, 2) == 0) {
    options.idle_unload = std::chrono::milliseconds(pick(500, 20'000));
  }
  options.evicts = pick(0, 7) != 0;
  options.victims_chosen = [](std::span<const cache::Candidate> offered, std::size_t need, const auto& chosen) {
    if (chosen != by_the_book(offered, need)) {
      throw std::logic_error("simulation: other victims than R7 names");
    }
  };
  return options;
}

Simulation::Simulation(std::uint64_t seed, bool trace)
    : random_(seed), trace_(trace), options_(options_for(random_)), bench_(options_) {
  bench_.reaper.set_inline(chance(0.2));
  make_models();
}

void Simulation::require(bool holds, const std::string& what) const {
  if (!holds) {
    throw std::logic_error("simulation: " + what);
  }
}

void Simulation::say(const std::string& what) const {
  if (trace_) {
    std::cout << what << '\n';
  }
}

ModelSpec Simulation::spec(std::size_t model) const {
  ModelSpec spec = spec_of("m" + std::to_string(model), stamps_[model]);
  spec.settings.pinned = pinned_[model];
  spec.settings.replace_offline = offline_[model];
  return spec;
}

// --- the world

FakeArtifact Simulation::random_artifact() {
  FakeArtifact artifact;
  const std::size_t unit = std::max<std::size_t>(2, options_.budget / 4);
  artifact.footprint.private_bytes = below(unit);
  artifact.footprint.code_bytes = below(10);
  if (chance(0.5)) {  // one of three families that share segments
    const std::string family = std::to_string(below(3));
    for (std::size_t i = 0; i < 1 + below(4); ++i) {
      artifact.footprint.segments.push_back({"s" + family + "." + std::to_string(i), 5 + 7 * i});
    }
    if (chance(0.5)) artifact.footprint.segments.push_back({"c" + family, 9, true});
  }
  artifact.estimate = {artifact.footprint.segments, artifact.footprint.private_bytes + artifact.footprint.code_bytes};
  if (chance(0.2)) {  // told too little, and grows to it or not
    artifact.estimate.private_bytes /= 2;
    artifact.load_growth = chance(0.5) ? below(unit) : 0;
  }
  if (chance(0.2)) {  // told too much, or segments that turn out not to be equal
    artifact.estimate.private_bytes += below(unit);
    if (!artifact.footprint.segments.empty() && chance(0.5)) {
      if (chance(0.5)) artifact.made_private.push_back(artifact.footprint.segments.back());
      artifact.footprint.private_bytes += artifact.footprint.segments.back().bytes;
      artifact.footprint.segments.pop_back();
    }
  }
  if (chance(0.7)) {  // contents that come again, also with other sizes than before
    artifact.estimate.digest = std::to_string(below(12));
    artifact.load_need = chance(0.5) ? below(unit) : 0;
  }
  artifact.stateless = chance(0.8);
  if (chance(0.15)) {
    const auto code = chance(0.5) ? ErrorCode::model_broken : ErrorCode::internal;
    (chance(0.5) ? artifact.estimate_error : artifact.load_error) = loader::Error{code, "told to fail"};
  }
  artifact.throws = chance(0.02);
  artifact.null_model = chance(0.02);
  artifact.footprint_throws = chance(0.02);
  return artifact;
}

void Simulation::make_models() {
  const std::size_t count = 2 + below(9);
  for (std::size_t i = 0; i < count; ++i) {
    stamps_.push_back(0);
    pinned_.push_back(chance(0.05));
    offline_.push_back(chance(0.2));
    bench_.loader.put("m" + std::to_string(i), random_artifact());
  }
}

// --- steps

void Simulation::step() {
  struct Choice {
    std::size_t weight;
    void (Simulation::*act)();
  };
  static constexpr Choice choices[] = {
      {30, &Simulation::acquire},   {3, &Simulation::load},          {3, &Simulation::unload},
      {4, &Simulation::leave},      {25, &Simulation::end_call},     {8, &Simulation::grow},
      {4, &Simulation::shrink},     {2, &Simulation::keep},          {5, &Simulation::drop_output},
      {3, &Simulation::claim_body}, {2, &Simulation::change_budget}, {2, &Simulation::change_artifact},
      {35, &Simulation::run_task},  {2, &Simulation::look},          {10, &Simulation::pass_time},
  };
  std::size_t total = 0;
  for (const Choice& choice : choices) {
    total += choice.weight;
  }
  std::size_t drawn = below(total);
  for (const Choice& choice : choices) {
    if (drawn < choice.weight) {
      (this->*choice.act)();
      break;
    }
    drawn -= choice.weight;
  }
  collect();
  bench_.check();
  check_answers();
}

void Simulation::acquire() {
  const std::size_t model = std::min(below(stamps_.size()), below(stamps_.size()));
  CallRequest request;
  request.input_bytes = std::size_t{1} << below(3);
  if (chance(0.3)) {
    request.deadline = bench_.clock.now() + std::chrono::milliseconds(below(10'000));
  }
  if (chance(0.05)) {
    request.least_bytes = below(options_.budget / 2);
    request.alone = true;
  }
  say("acquire m" + std::to_string(model));
  ModelSpec wanted = spec(model);
  if (wanted.artifact.ctime_ns > 0 && chance(0.1)) {
    --wanted.artifact.ctime_ns;  // an old view of the disk
  }
  callers_.push_back(bench_.acquire(wanted, request));
}

void Simulation::load() {
  const std::size_t model = below(stamps_.size());
  say("load m" + std::to_string(model));
  callers_.push_back(bench_.load(spec(model), chance(0.3) ? bench_.clock.now() + std::chrono::milliseconds(below(5'000))
                                                          : loader::Deadline::max()));
}

void Simulation::unload() {
  const std::size_t model = below(stamps_.size());
  say("unload m" + std::to_string(model));
  callers_.push_back(bench_.unload("m" + std::to_string(model), bench_.clock.now() + 30s));
}

void Simulation::leave() {
  if (callers_.empty()) {
    return;
  }
  const Bench::Who who = callers_[below(callers_.size())];
  if (who->ticket != 0 && who->waits() && bench_.cache().leave(who->ticket)) {
    say("leave " + std::to_string(who->ticket));
    std::erase(callers_, who);
    left_.push_back(who);
  }
}

void Simulation::end_call() {
  if (running_.empty()) {
    return;
  }
  const std::size_t index = below(running_.size());
  if (running_[index].lingers && !chance(0.03)) {
    return;
  }
  Running call = std::move(running_[index]);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  say("end a call");
  if (call.held > 0 && chance(0.5)) {
    const std::size_t kept = below(call.held + 1);
    call.grant->shrink(call.held - kept);
    outputs_.push_back({call.grant, kept});
  }
  if (chance(0.8)) {
    auto context = call.who->lease.context(loader::Deadline::max());
    context.peak_bytes = call.peak;
    call.who->lease.finish(context, false);
  }
  call.grant.reset();
  call.who->lease = Lease();
  bench_.cache().tick();  // what the call gave back in its middle counts from the next tick on
}

void Simulation::grow() {
  if (running_.empty()) {
    return;
  }
  Running& call = running_[below(running_.size())];
  const std::size_t bytes = below(options_.budget / 3);
  if (call.grant->grow(bytes)) {
    call.held += bytes;
    call.peak = std::max(call.peak, call.held);
    say("grow by " + std::to_string(bytes));
  }
  bench_.cache().tick();
}

void Simulation::shrink() {
  if (running_.empty()) {
    return;
  }
  Running& call = running_[below(running_.size())];
  const std::size_t bytes = below(call.held + 1);
  call.grant->shrink(bytes);
  call.held -= bytes;
  bench_.cache().tick();
}

void Simulation::keep() {
  if (running_.empty()) {
    return;
  }
  Running& call = running_[below(running_.size())];
  const std::size_t bytes = below(call.held / 4 + 1);
  if (chance(0.5)) {
    call.grant->keep(bytes);
  } else {
    call.grant->keep_in_code(bytes);
  }
  call.held -= bytes;
  bench_.cache().tick();
}

void Simulation::drop_output() {
  if (!outputs_.empty()) {
    say("drop an output");
    outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(below(outputs_.size())));
  }
}

void Simulation::claim_body() {
  if (bodies_.size() > 3 || (!bodies_.empty() && chance(0.5))) {
    bodies_.erase(bodies_.begin() + static_cast<std::ptrdiff_t>(below(bodies_.size())));
  } else if (auto body = bench_.cache().claim_body(below(options_.budget / 5 + 1))) {
    say("claim a body");
    bodies_.push_back(std::move(body));
  }
  bench_.cache().tick();
}

void Simulation::change_budget() {
  const std::size_t budget = options_.budget / 2 + below(options_.budget);
  say("budget " + std::to_string(budget));
  const auto result = bench_.cache().set_budget(budget);
  require(result || result.error().code == ErrorCode::conflict, "a budget is refused for another reason than conflict");
}

void Simulation::change_artifact() {
  const std::size_t model = below(stamps_.size());
  say("rewrite m" + std::to_string(model));
  ++stamps_[model];
  bench_.loader.put("m" + std::to_string(model), random_artifact());
}

void Simulation::run_task() {
  ManualExecutor& pool = chance(0.5) ? bench_.loads : bench_.reaper;
  if (pool.size() > 0) {
    say("run a task of " + std::string(&pool == &bench_.loads ? "loads" : "the reaper"));
    pool.run_at(below(pool.size()));
  }
}

void Simulation::look() {
  const auto status = bench_.cache().status();
  require(status.used.total() <= options_.budget * 2, "status tells nonsense");
  bench_.cache().with_model("m" + std::to_string(below(stamps_.size())), std::nullopt,
                            [&](const loader::Model& model, const cache::EntryStatus& entry) {
                              require(model.stateless() == entry.stateless, "a visit sees another model");
                            });
}

void Simulation::pass_time() {
  const auto by = std::chrono::milliseconds(chance(0.8) ? below(50) : chance(0.8) ? below(5'000) : below(40'000));
  say("pass " + std::to_string(by.count()) + " ms");
  bench_.clock.advance(by);
  bench_.cache().tick();
}

// --- what must hold

void Simulation::collect() {
  std::erase_if(callers_, [&](const Bench::Who& who) {
    if (who->runs()) {
      Running call{who, nullptr, 0, 0, chance(0.03)};
      const auto context = who->lease.context(loader::Deadline::max());
      call.grant = context.memory;
      call.held = context.granted_bytes;
      call.peak = call.held;
      running_.push_back(std::move(call));
    }
    return !who->waits();
  });
}

void Simulation::check_answers() {
  for (const Bench::Who& who : left_) {
    require(who->answers == 0, "a caller that left is answered");
  }
  for (const Running& call : running_) {
    require(call.who->answers == 1, "a caller is answered twice");
  }
  const Testimony& testimony = bench_.loader.testimony();
  require(testimony.died_elsewhere == 0, "a model died on another thread than the reaper's");
  require(running_.size() <= options_.compute_slots + 100, "more calls run than may");
  if (testimony.live > 0) {
    require(bench_.cache().used().total() > 0 || options_.budget > 0, "models live uncharged");
  }
}

void Simulation::describe() const {
  const cache::CacheStatus status = bench_.cache().status();
  const cache::MemoryUse& used = status.used;
  std::ostringstream text;
  text << "budget " << status.budget << ", floor " << status.activation_floor << ", running " << status.running
       << ", claims " << status.claims_waiting << "; weights " << used.weights << ", code " << used.code << ", loading "
       << used.loading << ", draining " << used.draining << ", activations " << used.activations << ", bodies "
       << used.bodies;
  for (const cache::EntryStatus& entry : status.entries) {
    text << "\n  " << entry.spec.name << (entry.pinned ? " pinned" : "") << " state " << static_cast<int>(entry.state)
         << ' ' << entry.stage << ": weights " << entry.weight_bytes << ", code " << entry.code_bytes << ", leases "
         << entry.leases << ", waiting " << entry.waiting;
  }
  say(text.str());
}

/// No schedule may leave anyone waiting for ever: when all calls end, all work is done and time goes by, everyone has
/// an answer, and what is used is what the ready models hold.
void Simulation::wind_down() {
  say("wind down");
  for (int round = 0; round < 2'000; ++round) {
    collect();
    for (Running& call : std::exchange(running_, {})) {
      call.grant.reset();
      call.who->lease = Lease();
    }
    outputs_.clear();
    bodies_.clear();
    bench_.settle();
    collect();
    if (running_.empty() && callers_.empty()) {
      break;
    }
    bench_.clock.advance(100ms);
    bench_.cache().tick();
    bench_.check();
  }
  if (!callers_.empty()) {
    describe();
  }
  require(callers_.empty(), "a caller waits for ever");
  bench_.settle();
  bench_.check();
  check_answers();
  const cache::MemoryUse used = bench_.cache().used();
  require(used.loading + used.draining + used.activations + used.bodies == 0, "something stays charged for nothing");
}

void Simulation::run(int steps) {
  for (int i = 0; i < steps; ++i) {
    step();
  }
  wind_down();
}

}  // namespace mme::test
