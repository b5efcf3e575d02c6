// Operators with several `out=` tensors, made safe for the interpreter. One repair of libtorch, nothing else.
#pragma once

#include <cstddef>

namespace mme::loader {

/// Such an operator returns its out arguments. libtorch 1.13 lets go of the arguments first and takes the results then,
/// so a tensor that nobody else held is freed twice, and the process ends. From now on each call holds them itself
/// until it has returned. Before any code is compiled; once. How many operators that are.
std::size_t hold_out_arguments();

}  // namespace mme::loader
