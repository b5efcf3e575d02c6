#include "loader/torch/weight_runs.hpp"

#include <algorithm>
#include <utility>

#include "loader/torch/fingerprint.hpp"

namespace mme::loader {
namespace {

constexpr std::uint64_t large = std::uint64_t{256} << 10;
constexpr std::uint64_t widest_gap = 256;  // headers of records and padding, for names of usual lengths

/// Gaps depend on the length of the archive's name, so the widest is charged.
std::size_t charge_of(const RunPlan& run, std::uint64_t content) {
  const std::uint64_t page = page_size();
  const std::uint64_t bytes = content + (run.weights.size() - 1) * widest_gap;
  return (bytes + page - 1) / page * page + page;  // it begins within a page
}

class Planner {
 public:
  Planner(const std::vector<WeightRecord>& weights, bool with_constants)
      : weights_(weights), with_constants_(with_constants) {}

  void add(std::size_t index) {
    const WeightRecord& weight = weights_[index];
    const bool alone = weight.bytes.size >= large;
    if (alone || (!run_.weights.empty() && weight.bytes.offset - run_.span.end() > widest_gap)) end();
    if (run_.weights.empty()) run_.span.offset = weight.bytes.offset;
    run_.weights.push_back(index);
    run_.span.size = weight.bytes.end() - run_.span.offset;
    hash_.add(weight.bytes.size);
    hash_.add(weight.crc32);
    content_ += weight.bytes.size;
    if (content_ >= large) end();
  }

  std::vector<RunPlan> take() {
    end();
    return std::move(runs_);
  }

 private:
  void end() {
    if (run_.weights.empty()) return;
    run_.bytes = charge_of(run_, content_);
    run_.number = 2 * runs_.size() + (with_constants_ ? 1 : 0);
    run_.content = std::to_string(hash_.value());
    runs_.push_back(std::exchange(run_, {}));
    content_ = 0;
    hash_ = {};
  }

  const std::vector<WeightRecord>& weights_;
  RunPlan run_;
  const bool with_constants_;
  std::uint64_t content_ = 0;
  Fingerprint hash_;
  std::vector<RunPlan> runs_;
};

}  // namespace

bool WrittenWeights::contains(std::size_t weight) const {
  return all || std::ranges::binary_search(weights, weight);
}

bool WrittenWeights::contains_all(const RunPlan& run) const {
  return std::ranges::all_of(run.weights, [this](std::size_t weight) { return contains(weight); });
}

std::vector<RunPlan> plan_runs(const ArchivePlan& plan, bool with_constants, const WrittenWeights& written) {
  Planner planner(plan.weights, with_constants);
  for (std::size_t i = 0; i < plan.weights.size(); ++i) {
    const WeightRecord& weight = plan.weights[i];
    const bool wanted = weight.name.starts_with("data/") || (with_constants && weight.name.starts_with("constants/"));
    if (wanted && weight.mappable && weight.bytes.size > 0) planner.add(i);
  }
  auto runs = planner.take();
  std::erase_if(runs, [&](const RunPlan& run) { return written.contains_all(run); });
  return runs.size() > most_runs ? std::vector<RunPlan>() : std::move(runs);
}

}  // namespace mme::loader
