// One line of the table that benchmarks print: a measure, the limit taken in the same run, and their ratio.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace mme::bench {

/// Values of one measure, in any order.
class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  [[nodiscard]] double at(double share) const {
    auto sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    return sorted.at(static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1)));
  }
  [[nodiscard]] double median() const { return at(0.5); }
  [[nodiscard]] bool empty() const { return values_.empty(); }

 private:
  std::vector<double> values_;
};

inline double milliseconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

inline constexpr double kMegabyte = 1e6;

inline void print_head() {
  std::printf("%-34s %-6s %10s %10s %8s  %-16s %s\n", "measure", "unit", "limit", "ours", "ratio", "goal",
              "min..max of ours");
}

/// One value as samples.
inline Samples single(double value) {
  Samples samples;
  samples.add(value);
  return samples;
}

/// `goal`: what ours may be at most; 0 when there is none.
inline void print_row(const std::string& measure, const char* unit, double limit, const Samples& ours, double goal,
                      const std::string& goal_text) {
  const char* verdict = goal == 0 ? "" : ours.median() <= goal ? " met" : " MISSED";
  std::printf("%-34s %-6s %10.2f %10.2f %8.4f  %-16s %.2f..%.2f%s\n", measure.c_str(), unit, limit, ours.median(),
              limit == 0 ? 0 : ours.median() / limit, goal_text.c_str(), ours.at(0), ours.at(1), verdict);
  std::fflush(stdout);
}

// The rows; each prints its own lines.
void load();
void first_answer();
void cold_disk();
void isolation();
void memory_return();
void budget_truth();
void sharing();
void many();
void incident_1();
void incident_2();
void allocator();

}  // namespace mme::bench
