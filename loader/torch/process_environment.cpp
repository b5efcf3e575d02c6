#include "loader/torch/process_environment.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <string_view>

namespace mme::loader {
namespace {

/// OpenBLAS takes its oldest kernels (SSE3) for processors that are newer than itself: a third of the speed that those
/// of the oldest processor with AVX2 have there. It looks at the variable as it is loaded.
bool blas_knows_not_this_processor() {
#if defined(__x86_64__)
  auto* core = reinterpret_cast<char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (core == nullptr || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return false;
  const std::string_view name = core();
  return name == "Prescott" || name == "Generic";
#else
  return false;
#endif
}

}  // namespace

std::vector<std::pair<std::string, std::string>> required_environment(std::size_t intra_op) {
  const std::string threads = std::to_string(std::max<std::size_t>(intra_op, 1));
  std::vector<std::pair<std::string, std::string>> variables{
      // Every library with a pool of its own: idle threads must sleep, or they fight the compute threads for cores.
      {"OMP_WAIT_POLICY", "PASSIVE"},
      {"OMP_NUM_THREADS", threads},
      {"OPENBLAS_NUM_THREADS", threads},
      {"MKL_NUM_THREADS", threads},
      // oneDNN keeps compiled primitives per shape, outside every meter; both caches must be bounded.
      {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64"},
      {"LRU_CACHE_CAPACITY", "64"},
      // One arena: what other threads freed comes back to the system too.
      {"MALLOC_ARENA_MAX", "1"},
  };
  if (blas_knows_not_this_processor()) variables.emplace_back("OPENBLAS_CORETYPE", "Haswell");
  return variables;
}

}  // namespace mme::loader
