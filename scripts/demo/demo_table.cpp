// Aligned text, at most 110 columns.
// No colours: it is pasted into tickets.
#include "scripts/demo/demo_table.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <ostream>

namespace mme::demo {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

/// "1.2", "85.3" and "104": three digits say enough.
std::string milliseconds(std::chrono::microseconds latency) {
  const double ms = static_cast<double>(latency.count()) / 1000;
  return format(ms < 100 ? "%.1f" : "%.0f", ms);
}

void print_row(std::ostream& out, const std::string& name, const ModelRow& row) {
  const auto count = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  const std::string p50 = row.load.latency.count() == 0 ? "-" : milliseconds(row.load.latency.percentile(0.5));
  const std::string p99 = row.load.latency.count() == 0 ? "-" : milliseconds(row.load.latency.percentile(0.99));
  out << format("%-16s %-22s %9s %8llu %8llu %6llu %8llu %7llu %8s %8s\n", name.c_str(), row.about.c_str(),
                human_bytes(static_cast<double>(row.file_bytes)).c_str(), count(row.load.requests), count(row.hits),
                count(row.loads), count(row.evictions), count(row.load.refused), p50.c_str(), p99.c_str());
}

}  // namespace

std::string human_bytes(double bytes) {
  if (bytes < 1e6) return format("%.1f KB", bytes / 1e3);
  return format("%.1f MB", bytes / 1e6);
}

void print_table(std::ostream& out, const std::vector<ModelRow>& rows) {
  out << format("%-16s %-22s %9s %8s %8s %6s %8s %7s %8s %8s\n", "model", "what it is", "file", "requests", "hits",
                "loads", "evicted", "refused", "p50 ms", "p99 ms");
  ModelRow total;
  for (const ModelRow& row : rows) {
    print_row(out, row.load.name, row);
    total.file_bytes += row.file_bytes;
    total.load.merge(row.load);
    total.hits += row.hits;
    total.loads += row.loads;
    total.evictions += row.evictions;
  }
  print_row(out, "all", total);
  out << "A request that is neither a hit nor a load waited for a load that was already under way.\n";
}

void print_failures(std::ostream& out, const std::vector<ModelRow>& rows) {
  for (const ModelRow& row : rows) {
    for (const auto& [what, count] : row.load.failures) {
      out << format("%-16s %s: %llu times\n", row.load.name.c_str(), what.c_str(),
                    static_cast<unsigned long long>(count));
    }
  }
}

void print_memory(std::ostream& out, double models_bytes, const MemorySample& before, const MemorySample& worst,
                  unsigned pages) {
  const auto line = [&](const char* what, double bytes, const std::string& remark) {
    out << format("%-38s %10s", what, human_bytes(bytes).c_str()) << (remark.empty() ? "" : "  ") << remark << "\n";
  };
  line("all models on disk", models_bytes, "");
  line("memory budget", worst.budget, format("%.0f %% of the models", 100 * worst.budget / models_bytes));
  line("charged against the budget, at most", worst.charged,
       format("%.0f %% of the budget, looked at %u times", 100 * worst.charged / worst.budget, pages));
  line("process's own memory, at most", worst.anonymous,
       "anonymous; " + human_bytes(before.anonymous) + " before the first model");
  line("process, resident, at most", worst.resident,
       "with program and libraries; " + human_bytes(before.resident) + " before the first model");
}

}  // namespace mme::demo
