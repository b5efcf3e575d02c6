#include "loader/torch/process_environment.hpp"

#include <algorithm>

namespace mme::loader {

std::vector<std::pair<std::string, std::string>> required_environment(std::size_t intra_op) {
  const std::string threads = std::to_string(std::max<std::size_t>(intra_op, 1));
  return {
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
}

}  // namespace mme::loader
