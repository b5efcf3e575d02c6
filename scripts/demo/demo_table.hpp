// Prints what the demo found, for people.
// Formatting only; every figure is handed in.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "scripts/demo/memory_watch.hpp"
#include "server/loadgen/load_report.hpp"

namespace mme::demo {

struct ModelRow {
  std::string about;
  std::uint64_t file_bytes = 0;
  server::TargetReport load;
  std::uint64_t loads = 0;
  std::uint64_t hits = 0;
  std::uint64_t evictions = 0;
};

/// "37.9 MB", "3.7 KB"; decimal, as budgets are written.
[[nodiscard]] std::string human_bytes(double bytes);

void print_table(std::ostream& out, const std::vector<ModelRow>& rows);
void print_failures(std::ostream& out, const std::vector<ModelRow>& rows);
/// `before`: an idle server without models.
void print_memory(std::ostream& out, double models_bytes, const MemorySample& before, const MemorySample& worst,
                  unsigned pages);

}  // namespace mme::demo
