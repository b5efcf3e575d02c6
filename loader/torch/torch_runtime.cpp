#include "loader/torch/torch_runtime.hpp"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>
#include <torch/csrc/jit/runtime/print_handler.h>
#include <torch/csrc/jit/runtime/profiling_graph_executor_impl.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <sstream>

#include "loader/torch/c10_allocator.hpp"
#include "loader/torch/out_arguments.hpp"

namespace mme::loader {
namespace {

std::atomic<int> intra_op_threads{1};

template <class Function>
Function* symbol(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// OpenBLAS has a pool of its own that ignores libtorch's setting.
void set_blas_threads(int count) {
  if (auto* set = symbol<void(int)>("openblas_set_num_threads")) set(count);
  if (auto* set = symbol<void(int)>("MKL_Set_Num_Threads")) set(count);
}

void drop(const std::string&) {}

/// A load from memory fills libtorch's table of operator upgraders, which is not safe to fill from two threads.
void fill_upgrader_table() {
  torch::jit::Module empty("Empty");
  empty.define("def forward(self, x):\n    return x\n");
  std::stringstream file;
  empty.save(file);
  torch::jit::load(file);
}

/// libtorch keeps the optimise flag per thread. Inference mode must span loads and calls alike: a tensor made inside
/// it refuses to be written outside it.
struct ThreadSetup {
  ThreadSetup() {
    torch::jit::setGraphExecutorOptimize(false);
    at::set_num_threads(intra_op_threads.load());
  }
  c10::InferenceMode inference{true};
};

}  // namespace

void start_torch_runtime(std::size_t intra_op, ModelPrint print) {
  install_tensor_allocator();
  intra_op_threads.store(static_cast<int>(std::max<std::size_t>(intra_op, 1)));
  torch::jit::FusionStrategy no_fusion{{torch::jit::FusionBehavior::STATIC, 0}};
  torch::jit::setFusionStrategy(no_fusion);
  at::set_num_threads(intra_op_threads.load());
  at::set_num_interop_threads(1);
  set_blas_threads(intra_op_threads.load());
  torch::jit::setPrintHandler(print != nullptr ? print : &drop);
  hold_out_arguments();
  fill_upgrader_table();
}

void enter_torch_thread() {
  thread_local ThreadSetup setup;
  static_cast<void>(setup);
}

std::string torch_version() {
  return TORCH_VERSION;
}

std::string blas_name() {
  if (auto* config = symbol<char*()>("openblas_get_config")) return config();
  if (symbol<void(int)>("MKL_Set_Num_Threads") != nullptr) return "MKL";
  Dl_info info{};
  void* multiply = dlsym(RTLD_DEFAULT, "sgemm_");
  if (multiply == nullptr || dladdr(multiply, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  const std::string file = info.dli_fname;
  return file.substr(file.rfind('/') + 1);
}

bool is_reference_blas() {
  for (const char* mark : {"openblas_get_config", "MKL_Set_Num_Threads", "bli_info_get_version_str", "ATL_buildinfo"}) {
    if (dlsym(RTLD_DEFAULT, mark) != nullptr) return false;
  }
  return dlsym(RTLD_DEFAULT, "sgemm_") != nullptr;
}

}  // namespace mme::loader
