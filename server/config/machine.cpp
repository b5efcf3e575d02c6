#include "server/config/machine.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

namespace mme::server {
namespace {

constexpr const char* kMounts = "/sys/fs/cgroup";

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return number;
}

/// The first numbers of a file; "max" and "-1" end them.
std::vector<std::uint64_t> numbers_in(const std::string& text) {
  std::vector<std::uint64_t> numbers;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto number = number_in(word);
    if (!number) break;
    numbers.push_back(*number);
  }
  return numbers;
}

/// One line of /proc/self/cgroup: "0::/a/b" is version 2, "4:memory:/a/b" version 1.
struct Group {
  bool is_v2 = false;
  std::string controllers;
  std::string path;

  [[nodiscard]] bool has(std::string_view controller) const {
    std::istringstream list(controllers);
    for (std::string name; std::getline(list, name, ',');) {
      if (name == controller) return true;
    }
    return false;
  }
};

std::vector<Group> groups_of(const FileReader& read) {
  std::vector<Group> groups;
  std::istringstream lines(read("/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_v2 = controllers.empty();
    groups.push_back({is_v2, std::move(controllers), line.substr(second + 1)});
  }
  return groups;
}

/// The group's folder and all above it up to the mount: a limit anywhere on the way holds. In a container the path may
/// be that of the host and not exist; the mount itself is then the group.
std::vector<std::string> folders_up(const std::string& mount, std::string path) {
  std::vector<std::string> folders;
  while (path.size() > 1 && path.front() == '/') {
    folders.push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

/// Calls `visit(folder)` for each folder that may limit `controller`.
template <class Visit>
void visit_folders(const std::vector<Group>& groups, std::string_view controller, Visit visit) {
  for (const auto& group : groups) {
    if (!group.is_v2 && !group.has(controller)) continue;
    std::string mount = kMounts;
    if (!group.is_v2) mount += "/" + std::string(controller);
    for (const auto& folder : folders_up(mount, group.path)) visit(folder, group.is_v2);
  }
}

std::optional<std::uint64_t> memory_limit(const FileReader& read, const std::vector<Group>& groups, std::uint64_t ram) {
  std::optional<std::uint64_t> tightest;
  visit_folders(groups, "memory", [&](const std::string& folder, bool is_v2) {
    const auto text = read(folder + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    const auto numbers = numbers_in(text.value_or(""));
    // Version 1 writes "no limit" as a number beyond any machine.
    if (numbers.empty() || (ram != 0 && numbers[0] >= ram)) return;
    tightest = std::min(tightest.value_or(numbers[0]), numbers[0]);
  });
  return tightest;
}

std::optional<double> quota_in(const FileReader& read, const std::string& folder, bool is_v2) {
  std::vector<std::uint64_t> numbers;  // microseconds of time, microseconds of period
  if (is_v2) {
    numbers = numbers_in(read(folder + "/cpu.max").value_or(""));
  } else {
    numbers = numbers_in(read(folder + "/cpu.cfs_quota_us").value_or(""));
    const auto period = numbers_in(read(folder + "/cpu.cfs_period_us").value_or(""));
    numbers.insert(numbers.end(), period.begin(), period.end());
  }
  if (numbers.size() < 2 || numbers[0] == 0 || numbers[1] == 0) return std::nullopt;
  return static_cast<double>(numbers[0]) / static_cast<double>(numbers[1]);
}

std::optional<double> cpu_quota(const FileReader& read, const std::vector<Group>& groups) {
  std::optional<double> tightest;
  visit_folders(groups, "cpu", [&](const std::string& folder, bool is_v2) {
    if (const auto quota = quota_in(read, folder, is_v2)) tightest = std::min(tightest.value_or(*quota), *quota);
  });
  return tightest;
}

std::uint64_t ram_in(const std::string& meminfo) {
  constexpr std::string_view kField = "MemTotal:";
  const std::size_t field = meminfo.find(kField);
  if (field == std::string::npos) return 0;
  const auto numbers = numbers_in(meminfo.substr(field + kField.size()));
  return numbers.empty() ? 0 : numbers[0] * 1024;
}

std::optional<std::string> read_small_file(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

unsigned usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace

unsigned Machine::cores() const noexcept {
  const double quota = cpu_quota.value_or(processors);
  // A quota of 2 must stay 2 though division made it 2.0000001.
  const auto whole = static_cast<unsigned>(std::ceil(std::min(quota, 1e6) - 1e-6));
  return std::clamp(whole, 1U, std::max(1U, processors));
}

Machine read_machine(const FileReader& read, unsigned processors) {
  const auto groups = groups_of(read);
  Machine machine;
  machine.ram = ram_in(read("/proc/meminfo").value_or(""));
  machine.memory_limit = memory_limit(read, groups, machine.ram);
  machine.processors = processors;
  machine.cpu_quota = cpu_quota(read, groups);
  return machine;
}

Machine read_machine() {
  return read_machine(&read_small_file, usable_processors());
}

}  // namespace mme::server
