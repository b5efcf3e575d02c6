#include "loader/torch/weight_load.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <set>
#include <utility>

namespace mme::loader {
namespace {

constexpr std::size_t nowhere = SIZE_MAX;

}  // namespace

WeightLoad::WeightLoad(const Terms& terms, std::vector<RunPlan> runs, const WrittenWeights& written,
                       const std::vector<Segment>& held)
    : terms_(terms), place_of_(terms.plan.weights.size(), {nowhere, 0}) {
  for (const Segment& segment : held) {
    if (!segment.code) held_[segment.key] = segment.bytes;
  }
  for (RunPlan& plan : runs) {
    for (std::size_t i = 0; i < plan.weights.size(); ++i) {
      if (!written.contains(plan.weights[i])) place_of_[plan.weights[i]] = {runs_.size(), i};
    }
    runs_.push_back({std::move(plan), "", false, false, nullptr});
  }
}

/// What of it others hold, and what the cache holds for this load.
void WeightLoad::look_up() {
  for (Run& run : runs_) {
    run.key = terms_.pool.likely_key(terms_.artifact, run.plan);
    run.held = held_.erase(run.key) > 0;  // a second run of that content pays until it is shared
    auto others = terms_.pool.proven(terms_.artifact, run.plan);
    run.shared = others.run != nullptr;
    run.at = std::move(others.run);
    took_others_ = took_others_ || run.shared;
  }
}

const char* WeightLoad::open(bool may_share) {
  if (may_share) look_up();
  take_over_unnamed();
  std::vector<ByteRange> parts;
  for (const Run& run : runs_) {
    if (!run.at) parts.push_back(run.plan.span);
  }
  if (runs_.empty()) return "no weights";
  if (parts.empty()) return "";
  auto made = WeightMap::make(terms_.file, parts, terms_.policy);
  if (!made.map) {
    give_up();
    return made.why_not;
  }
  map_ = std::move(made.map);
  std::size_t part = 0;
  for (Run& run : runs_) {
    if (run.at) continue;
    std::vector<ByteRange> weights;
    for (const std::size_t weight : run.plan.weights) weights.push_back(terms_.plan.weights[weight].bytes);
    run.at = std::make_shared<WeightRun>(map_, part++, std::move(weights), run.plan.bytes);
    if (!run.held && !run.at->charge_to(terms_.account)) throw std::bad_alloc();
  }
  return "";
}

WeightPlace WeightLoad::place(std::size_t weight) const {
  const auto [run, number] = place_of_[weight];
  return run == nowhere ? WeightPlace{} : WeightPlace{runs_[run].at, number};
}

/// From the cache's charge for a segment to room of the load's own. False: there is none. The cache is asked with no
/// account current, for it may allocate under its own lock.
bool WeightLoad::make_private(const Segment& segment) noexcept {
  const AccountScope nobody(nullptr);
  if (terms_.memory.make_private(segment)) {
    terms_.account.add_granted(segment.bytes);
    return true;
  }
  terms_.account.mark_refused();
  return false;
}

bool WeightLoad::take_over(Run& run) noexcept {
  if (!std::exchange(run.held, false)) return true;
  return make_private({run.key, run.plan.bytes}) && (!run.at || run.at->charge_to(terms_.account));
}

/// All are asked for before the load ends for want of one: the cache then knows what its second try will take.
void WeightLoad::take_over_unnamed() {
  bool all = true;
  for (const auto& [key, bytes] : std::exchange(held_, {})) all = make_private({key, bytes}) && all;
  if (!all) throw std::bad_alloc();
}

void WeightLoad::take_over_all() {
  bool all = true;
  for (Run& run : runs_) all = take_over(run) && all;
  take_over_unnamed();
  if (!all) throw std::bad_alloc();
}

void WeightLoad::let_go_of(const WrittenWeights& written) {
  bool all = true;
  for (Run& run : runs_) {
    if (!run.at || !written.contains_all(run.plan)) continue;
    if (std::exchange(run.held, false)) {
      all = make_private({run.key, run.plan.bytes}) && all;
    } else if (!run.shared) {
      run.at->uncharge();
    }
    run.shared = false;
    run.at.reset();
  }
  if (!all) throw std::bad_alloc();
  for (const std::size_t weight : written.weights) place_of_[weight] = {nowhere, 0};
}

std::vector<std::size_t> WeightLoad::share() {
  std::vector<std::size_t> moved;
  for (Run& run : runs_) {
    if (run.shared || !run.at) continue;
    WeightPool::Shared found = terms_.pool.share(terms_.artifact, run.plan, run.at);
    if (found.key != run.key && !take_over(run)) throw std::bad_alloc();
    run.key = std::move(found.key);
    run.shared = true;
    if (found.run == run.at) continue;
    run.at = std::move(found.run);
    std::ranges::copy_if(run.plan.weights, std::back_inserter(moved),
                         [&](std::size_t weight) { return place(weight).run != nullptr; });
  }
  return moved;
}

void WeightLoad::keep() {
  take_over_all();
}

void WeightLoad::give_up() {
  for (Run& run : runs_) {
    run.at.reset();
    run.shared = false;
  }
  map_.reset();
  took_others_ = false;
  take_over_all();
}

std::vector<Segment> WeightLoad::hand_to_cache() {
  std::vector<Segment> segments;
  std::set<std::string> named;
  for (Run& run : runs_) {
    if (!run.shared) continue;
    run.at->uncharge();
    if (named.insert(run.key).second) segments.push_back({run.key, run.plan.bytes});
  }
  return segments;
}

std::vector<std::shared_ptr<WeightMap>> WeightLoad::maps() const {
  std::vector<std::shared_ptr<WeightMap>> maps;
  for (const Run& run : runs_) {
    if (run.at && std::ranges::find(maps, run.at->map()) == maps.end()) maps.push_back(run.at->map());
  }
  return maps;
}

std::size_t WeightLoad::mapped_bytes() const {
  std::set<const WeightRun*> runs;
  std::size_t bytes = 0;
  for (const Run& run : runs_) bytes += run.at && runs.insert(run.at.get()).second ? run.plan.bytes : 0;
  return bytes;
}

}  // namespace mme::loader
