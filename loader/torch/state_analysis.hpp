// Finds, before a model runs, whether a call may write to the model's own state or to its inputs.
// Reads graphs and the object tree; never runs anything. Errs towards "may write".
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "loader/torch/write_report.hpp"

namespace mme::loader {

/// `module` must have a forward and be in the mode (eval) that it will be called in. `tensors`: those of its shape, see
/// ObjectShape; a write to any other counts as one to all.
[[nodiscard]] WriteReport find_writes(const torch::jit::Module& module, const std::vector<at::Tensor>& tensors);

}  // namespace mme::loader
