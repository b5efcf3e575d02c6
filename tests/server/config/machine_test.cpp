// Memory and cores of a machine, from the files of many kinds of it.
#include "server/config/machine.hpp"

#include <map>

#include "tests/support/catch.hpp"

using namespace mme::server;

namespace {

using Files = std::map<std::string, std::string>;

constexpr std::uint64_t kOneGiB = std::uint64_t{1} << 30;

Machine machine_with(const Files& files, unsigned processors = 8) {
  return read_machine(
      [&](const std::string& path) -> std::optional<std::string> {
        const auto found = files.find(path);
        return found == files.end() ? std::nullopt : std::optional(found->second);
      },
      processors);
}

Files with_ram(Files files) {
  files["/proc/meminfo"] = "MemTotal:       16777216 kB\nMemFree:        1 kB\n";
  return files;
}

}  // namespace

TEST_CASE("the tightest memory limit of the cgroups is found", "[machine]") {
  struct Row {
    const char* what;
    Files files;
    std::optional<std::uint64_t> limit;
  };
  const Row table[] = {
      {"nothing to read", {}, std::nullopt},
      {"v2 in a container",
       {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.max", "536870912\n"}},
       kOneGiB / 2},
      {"v2 without a limit", {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.max", "max\n"}}, std::nullopt},
      {"v2 with a path of the host",
       {{"/proc/self/cgroup", "0::/kubepods/pod1/c\n"}, {"/sys/fs/cgroup/memory.max", "1073741824\n"}},
       kOneGiB},
      {"v2 with a limit above and below",
       {{"/proc/self/cgroup", "0::/a/b\n"},
        {"/sys/fs/cgroup/a/b/memory.max", "4294967296\n"},
        {"/sys/fs/cgroup/a/memory.max", "2147483648\n"}},
       2 * kOneGiB},
      {"v2 with a looser limit above",
       {{"/proc/self/cgroup", "0::/a/b\n"},
        {"/sys/fs/cgroup/a/b/memory.max", "1073741824\n"},
        {"/sys/fs/cgroup/a/memory.max", "4294967296\n"}},
       kOneGiB},
      {"v2 with a limit above the machine",
       {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.max", "68719476736\n"}},
       std::nullopt},
      {"v1",
       {{"/proc/self/cgroup", "5:cpu,cpuacct:/d\n4:memory:/d\n1:name=systemd:/\n"},
        {"/sys/fs/cgroup/memory/d/memory.limit_in_bytes", "1073741824\n"}},
       kOneGiB},
      {"v1 without a limit",
       {{"/proc/self/cgroup", "4:memory:/\n"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
       std::nullopt},
      {"both versions at once",
       {{"/proc/self/cgroup", "4:memory:/d\n0::/d\n"},
        {"/sys/fs/cgroup/memory/d/memory.limit_in_bytes", "1073741824\n"}},
       kOneGiB},
      {"files full of something else",
       {{"/proc/self/cgroup", "nonsense\n0:\n0::relative\n"}, {"/sys/fs/cgroup/memory.max", "lots"}},
       std::nullopt},
  };
  for (const auto& row : table) {
    INFO(row.what);
    const auto machine = machine_with(with_ram(row.files));
    CHECK(machine.memory_limit == row.limit);
    CHECK(machine.ram == 16 * kOneGiB);
    CHECK(machine.memory() == row.limit.value_or(16 * kOneGiB));
  }
}

TEST_CASE("G17: cores are the quota rounded up, at most what the process may run on", "[machine]") {
  struct Row {
    const char* what;
    Files files;
    unsigned processors;
    unsigned cores;
  };
  const auto v2 = [](const char* cpu_max) {
    return Files{{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", cpu_max}};
  };
  const Row table[] = {
      {"no quota", {}, 8, 8},
      {"max", v2("max 100000\n"), 8, 8},
      {"1.5", v2("150000 100000\n"), 64, 2},
      {"2 exactly", v2("200000 100000\n"), 64, 2},
      {"0.1", v2("10000 100000\n"), 64, 1},
      {"more than there are", v2("800000 100000\n"), 4, 4},
      {"an odd period", v2("60000 20000\n"), 64, 3},
      {"v1",
       {{"/proc/self/cgroup", "3:cpu,cpuacct:/\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
       64,
       3},
      {"v1 without a quota",
       {{"/proc/self/cgroup", "3:cpu,cpuacct:/\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
       6,
       6},
      {"a quota above the group",
       {{"/proc/self/cgroup", "0::/a/b\n"},
        {"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
        {"/sys/fs/cgroup/a/cpu.max", "300000 100000\n"}},
       8,
       3},
      {"a period of nothing", v2("100000 0\n"), 8, 8},
      {"no processors", {}, 0, 1},
  };
  for (const auto& row : table) {
    INFO(row.what);
    CHECK(machine_with(row.files, row.processors).cores() == row.cores);
  }
}

TEST_CASE("this machine can be read", "[machine]") {
  const auto machine = read_machine();
  CHECK(machine.ram > 64U << 20);
  CHECK(machine.cores() >= 1);
  CHECK(machine.memory() <= machine.ram);
}
