// Every tensor that a loaded model can reach must lie inside its storage; libtorch itself does not look.
// Reads sizes only, never an element.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>
#include <string>

namespace mme::loader {

/// Looks at attributes (also inside lists, dicts, tuples and objects), and unless they are `known_code`, which was
/// looked at before, at constants in graphs. Returns what is wrong, nullopt when nothing is.
[[nodiscard]] std::optional<std::string> tensor_out_of_bounds(const torch::jit::Module& module,
                                                              bool known_code = false);

}  // namespace mme::loader
