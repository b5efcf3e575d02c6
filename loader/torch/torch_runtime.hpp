// The process-wide and per-thread set-up that libtorch needs before it loads or runs a model here.
// Loads and runs no model itself (but for one empty one that fills libtorch's own tables).
#pragma once

#include <cstddef>
#include <string>

namespace mme::loader {

/// Once, in main, before any other thread and before anything else of libtorch is used: installs the metering
/// allocator, turns the fusing executor off, sets thread counts. `intra_op`: threads one operator may use, at least 1.
/// `print` gets what models print (any thread, several at once); without it that text is dropped, for it must never mix
/// with a log on standard output.
using ModelPrint = void (*)(const std::string& text);
void start_torch_runtime(std::size_t intra_op, ModelPrint print = nullptr);

/// Makes the calling thread fit to load and run models: inference mode for the thread's life, optimising executor off,
/// thread counts. TorchLoader and TorchModel call it; a pool may call it earlier. Cheap when called again.
void enter_torch_thread();

/// "1.13.1"
[[nodiscard]] std::string torch_version();

/// The linear algebra library in use, as it names itself: "OpenBLAS 0.3.21 ...". No path.
[[nodiscard]] std::string blas_name();
/// True for the reference implementation, which is many times slower: worth a warning at start.
[[nodiscard]] bool is_reference_blas();

}  // namespace mme::loader
