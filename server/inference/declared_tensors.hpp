// What an operator declared about a model's inputs and outputs, applied to the tensors of one call and to metadata.
// Pure. Declared tensors stand in the order of `forward`, so the i-th one is INPUT__i or OUTPUT__i.
#pragma once

#include <vector>

#include "loader/signature.hpp"
#include "loader/tensor.hpp"
#include "server/config/settings.hpp"

namespace mme::server {

/// Gives inputs called by a declared name the name that the model knows (INPUT__i). invalid_tensor when datatype or
/// shape is not as declared, whichever of its names an input is called by.
[[nodiscard]] loader::Result<void> bind_declared(const std::vector<TensorOptions>& declared, loader::TensorMap& inputs);

/// Gives outputs that the model itself does not name (OUTPUT__i) their declared names.
void name_outputs(const std::vector<TensorOptions>& declared, loader::TensorMap& outputs);

/// Metadata: `known` with what is declared written over it, by position; declared ones beyond it are added.
[[nodiscard]] std::vector<loader::TensorInfo> with_declared(std::vector<loader::TensorInfo> known,
                                                            const std::vector<TensorOptions>& declared);

}  // namespace mme::server
