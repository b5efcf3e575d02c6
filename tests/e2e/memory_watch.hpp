// Watches from outside what the server takes: the kernel's count of its memory, and the sum that it says itself.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/server_process.hpp"

namespace mme::test {

/// Bytes of a field of /proc/PID/smaps_rollup: what belongs to the process, shared pages by their share.
inline std::size_t proportional_bytes(pid_t pid, const std::string& field = "Pss:") {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  std::string word;
  std::size_t kibibytes = 0;
  while (file >> word) {
    if (word == field) file >> kibibytes;
  }
  return kibibytes * 1024;
}

/// Samples every 20 ms until told to stop, and keeps the largest of each.
class MemoryWatch {
 public:
  explicit MemoryWatch(const ServerProcess& server) : server_(server), thread_([this] { watch(); }) {}
  ~MemoryWatch() { stop(); }
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] std::size_t process() const { return process_; }
  [[nodiscard]] double kinds() const { return kinds_; }
  [[nodiscard]] int samples() const { return samples_; }

 private:
  void watch() {
    while (!stop_) {
      process_ = std::max(process_.load(), proportional_bytes(server_.pid()));
      kinds_ = std::max(kinds_.load(), server_.metric_sum("mme_memory_bytes"));
      ++samples_;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  const ServerProcess& server_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> process_{0};
  std::atomic<double> kinds_{0};
  std::atomic<int> samples_{0};
  std::thread thread_;
};

/// A memory cgroup (version 1) of our own, where this user may make one. What is started between enter() and leave()
/// stays in it.
class MemoryGroup {
 public:
  explicit MemoryGroup(std::size_t limit) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const auto at = line.find(":memory:");
      if (at != std::string::npos) parent_ = "/sys/fs/cgroup/memory" + line.substr(at + 8);
    }
    if (parent_.empty()) return;
    path_ = parent_ / ("mme-test-" + std::to_string(getpid()));
    std::error_code error;
    made_ = std::filesystem::create_directory(path_, error) && put(path_ / "memory.limit_in_bytes", limit);
  }
  ~MemoryGroup() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);  // rmdir: its files go with it
    if (made_) rmdir(path_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  explicit operator bool() const { return made_; }
  bool enter() { return put(path_ / "cgroup.procs", getpid()); }
  void leave() { put(parent_ / "cgroup.procs", getpid()); }
  /// Times that the kernel killed something in it.
  [[nodiscard]] long kills() const {
    std::ifstream file(path_ / "memory.oom_control");
    std::string word;
    long count = 0;
    while (file >> word) {
      if (word == "oom_kill") file >> count;
    }
    return count;
  }

 private:
  template <class Value>
  static bool put(const std::filesystem::path& file, Value value) {
    std::ofstream stream(file);
    stream << value << std::flush;
    return stream.good();
  }
  std::filesystem::path parent_;
  std::filesystem::path path_;
  bool made_ = false;
};

}  // namespace mme::test
