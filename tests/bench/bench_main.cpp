// mme_bench [ROW...]: prints one table of ratios. Not a test: nothing here passes or fails.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "loader/torch/process_environment.hpp"
#include "loader/torch/torch_runtime.hpp"
#include "tests/bench/bench_row.hpp"
#include "tests/bench/naive_handlers.hpp"

namespace {

struct Row {
  const char* name;
  void (*run)();
};

constexpr Row kRows[] = {
    {"load", &mme::bench::load},
    {"first_answer", &mme::bench::first_answer},
    {"cold_disk", &mme::bench::cold_disk},
    {"memory_return", &mme::bench::memory_return},
    {"isolation", &mme::bench::isolation},
    {"budget_truth", &mme::bench::budget_truth},
    {"sharing", &mme::bench::sharing},
    {"many", &mme::bench::many},
    {"incident_1", &mme::bench::incident_1},
    {"incident_2", &mme::bench::incident_2},
    {"allocator", &mme::bench::allocator},
};

const Row* find(const char* name) {
  for (const Row& row : kRows) {
    if (std::strcmp(row.name, name) == 0) return &row;
  }
  return nullptr;
}

/// What is measured in this process is measured with the libraries set as the server has them.
void complete_environment(char** argv) {
  bool changed = false;
  for (const auto& [name, value] : mme::loader::required_environment(1)) {
    if (std::getenv(name.c_str()) != nullptr) continue;
    setenv(name.c_str(), value.c_str(), 0);
    changed = true;
  }
  if (changed) execv("/proc/self/exe", argv);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--handler") == 0) return mme::bench::handler_main({argv + 2, argv + argc});
  std::vector<const Row*> wanted;
  for (int i = 1; i < argc; ++i) {
    wanted.push_back(find(argv[i]));
    if (wanted.back() == nullptr) {
      std::fprintf(stderr, "no row is called %s; there are", argv[i]);
      for (const Row& row : kRows) std::fprintf(stderr, " %s", row.name);
      std::fprintf(stderr, "\n");
      return 2;
    }
  }
  complete_environment(argv);
  if (wanted.empty()) {
    for (const Row& row : kRows) wanted.push_back(&row);
  }
  mme::loader::start_torch_runtime(1);
  mme::bench::print_head();
  for (const Row* row : wanted) row->run();
  return 0;
}
