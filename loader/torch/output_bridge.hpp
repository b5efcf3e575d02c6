// What a model returned, as named tensors that nobody else can write to.
// Never runs a model; does not look at weights, only at who pays for a block of memory.
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "loader/tensor.hpp"
#include "loader/torch/memory_account.hpp"

namespace mme::loader {

struct OutputSources {
  const std::vector<at::Tensor>& wrapped;  ///< inputs in the request's own bytes: returned as they are, no copy
  MemoryAccount& call;                     ///< blocks that it pays for were made in this call
  MemoryAccount& outputs;                  ///< pays for what leaves the call
  bool may_take;  ///< the call's own blocks may leave it without a copy: the model cannot have kept them
};

/// Names: a tensor, number or text is `OUTPUT__0`; the members of a tuple or list `OUTPUT__0`, `OUTPUT__1`, ...; those
/// of a dict their keys, in the dict's own order. What is nested inside a member gets its name, a dot, and its key or
/// index: `k.0`, `k.1.0`, `OUTPUT__1.a`. Named tuples count by position.
/// Types: int INT64 [1], float FP64 [1], bool BOOL [1], str BYTES [1]; lists of these BYTES / INT64 / FP64 / BOOL [n].
/// Fails with inference_failed naming the type of what a reply cannot carry: None, complex, sparse, quantized, objects.
/// Must run in the call's metered scope. Throws what libtorch throws.
[[nodiscard]] Result<TensorMap> take_outputs(const c10::IValue& returned, const OutputSources& sources);

}  // namespace mme::loader
