// From settings and the machine to the bytes that models may take. Pure.
// The process's base and the reserve stand beside the budget: what no meter sees still has to fit under the limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "loader/error.hpp"
#include "server/config/machine.hpp"
#include "server/config/settings.hpp"

namespace mme::server {

struct MemoryBudget {
  std::uint64_t budget = 0;            ///< bytes for weights, code, loads and calls together
  std::uint64_t activation_floor = 0;  ///< part of it that weights never fill
  std::uint64_t reserve = 0;           ///< beside it: scratch memory of kernels, which by-passes every meter
  std::uint64_t limit = 0;             ///< what the process must stay below; 0 when it is not known
  std::string origin;                  ///< how the budget came about, for the start line
  std::optional<std::string> warning;  ///< one line
};

/// 64 MiB, and 6 MiB for each thread that runs kernels (compute and loader threads).
[[nodiscard]] std::uint64_t memory_reserve(unsigned workers) noexcept;

/// `base`: resident bytes of the process before any model; `workers`: compute and loader threads.
/// `auto`: 85 % of the cgroup limit, else 75 % of RAM, less base and reserve; cannot_fit when nothing is left.
/// A given budget above the limit is cannot_fit; one that fits alone but not with base and reserve is a warning, since
/// whether the reserve is used depends on the models.
[[nodiscard]] loader::Result<MemoryBudget> memory_budget(const Settings& settings, const Machine& machine,
                                                         std::uint64_t base, unsigned workers);

}  // namespace mme::server
