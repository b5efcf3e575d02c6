#include "server/config/memory_budget.hpp"

#include <algorithm>

#include "server/config/size.hpp"

namespace mme::server {
namespace {

using loader::ErrorCode;
using loader::fail;
using loader::Result;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// In whole MiB: exact bytes would hide the size behind its digits.
std::string shown(std::uint64_t bytes) {
  return bytes < kMiB ? size_text(bytes) : size_text(bytes / kMiB * kMiB);
}

std::string limit_name(const Machine& machine) {
  return (machine.memory_limit ? "the cgroup limit of " : "the RAM of ") + shown(machine.memory());
}

/// At most half of a small budget: a floor that fills it would leave no room for a model.
std::uint64_t floor_of(std::uint64_t budget, const Settings& settings) {
  if (settings.cache.activation_floor) return *settings.cache.activation_floor;
  return std::min(budget / 2, std::max(budget / 20, 32 * kMiB));
}

Result<MemoryBudget> automatic(const Machine& machine, std::uint64_t beside) {
  if (machine.memory() == 0) {
    return fail(ErrorCode::cannot_fit, "the memory of the machine cannot be read; give cache.memory_budget a size");
  }
  const unsigned percent = machine.memory_limit ? 85 : 75;
  const std::uint64_t share = machine.memory() / 100 * percent;
  const std::string rule = std::to_string(percent) + " % of " + limit_name(machine);
  if (share <= beside) {
    return fail(ErrorCode::cannot_fit,
                rule + " leaves no room for models: the process and its reserve take " + shown(beside));
  }
  MemoryBudget result;
  result.budget = share - beside;
  result.origin = "auto: " + rule + ", less " + shown(beside) + " for the process and its reserve";
  return result;
}

Result<MemoryBudget> given(std::uint64_t budget, const Machine& machine, std::uint64_t beside) {
  const std::uint64_t limit = machine.memory();
  if (limit != 0 && budget > limit) {
    return fail(ErrorCode::cannot_fit, "cache.memory_budget of " + shown(budget) + " is above " + limit_name(machine));
  }
  MemoryBudget result;
  result.budget = budget;
  result.origin = "cache.memory_budget";
  if (limit != 0 && beside > limit - budget) {
    result.warning = "cache.memory_budget of " + shown(budget) + " and " + shown(beside) +
                     " for the process and its reserve are above " + limit_name(machine) +
                     "; the process may be killed when the budget is full";
  }
  return result;
}

}  // namespace

std::uint64_t memory_reserve(unsigned workers) noexcept {
  return 64 * kMiB + 6 * kMiB * workers;
}

Result<MemoryBudget> memory_budget(const Settings& settings, const Machine& machine, std::uint64_t base,
                                   unsigned workers) {
  const std::uint64_t reserve = memory_reserve(workers);
  auto result = settings.cache.memory_budget ? given(*settings.cache.memory_budget, machine, base + reserve)
                                             : automatic(machine, base + reserve);
  if (!result) return result;
  result->reserve = reserve;
  result->limit = machine.memory();
  result->activation_floor = floor_of(result->budget, settings);
  if (result->activation_floor >= result->budget) {
    return fail(ErrorCode::cannot_fit, "cache.activation_floor of " + shown(result->activation_floor) +
                                           " leaves no room for models in a budget of " + shown(result->budget));
  }
  return result;
}

}  // namespace mme::server
