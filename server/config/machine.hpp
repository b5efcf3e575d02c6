// What this process may use of the machine: memory and cores, as the cgroup (v1, v2) and the kernel say.
// Reads and computes; decides nothing about budgets and sets nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace mme::server {

/// Content of a small file of /proc or /sys; nullopt when there is none.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

struct Machine {
  std::uint64_t ram = 0;                      ///< bytes
  std::optional<std::uint64_t> memory_limit;  ///< bytes; the tightest cgroup limit below ram
  unsigned processors = 1;                    ///< that this process may run on
  std::optional<double> cpu_quota;            ///< cores' worth of time the cgroup gives, when it is limited

  /// Threads worth having: the quota rounded up (1.5 are 2: the half is used, throttled at worst), at most the
  /// processors, at least 1.
  [[nodiscard]] unsigned cores() const noexcept;
  /// What the process must stay below to live.
  [[nodiscard]] std::uint64_t memory() const noexcept { return memory_limit.value_or(ram); }
};

/// `processors` as sched_getaffinity counts them. Limits of all groups above the process's own are looked at too; the
/// hierarchies are looked for under /sys/fs/cgroup. What cannot be read counts as no limit.
[[nodiscard]] Machine read_machine(const FileReader& read, unsigned processors);
/// Of the machine that we run on.
[[nodiscard]] Machine read_machine();

}  // namespace mme::server
