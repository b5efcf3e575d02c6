// Our tensors as libtorch's, and a request's tensors as the arguments of a model.
// Knows nothing of what a model returns (output_bridge) and never runs one.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <vector>

#include "loader/signature.hpp"
#include "loader/tensor.hpp"

namespace mme::loader {

/// nullopt: the other side has no such type. UINT16, UINT32 and UINT64 exist from libtorch 2.3 on.
[[nodiscard]] std::optional<at::ScalarType> scalar_type_of(DataType type) noexcept;
[[nodiscard]] std::optional<DataType> data_type_of(at::ScalarType type) noexcept;

/// The arguments of a model's forward as a client can fill them. `schema` begins with self.
[[nodiscard]] Signature signature_of(const c10::FunctionSchema& schema);

/// One call's arguments, without self.
struct Arguments {
  std::vector<c10::IValue> values;
  std::vector<at::Tensor> wrapped;  ///< those that lie in the request's own bytes
};

/// Fills the arguments of `schema` from bound inputs. Tensors wrap the request's bytes where they are aligned;
/// those of an argument that the model may write to (`written[i]`) are copies. Must run in the call's metered scope.
/// Fails with invalid_tensor for types that this libtorch does not have and integers that do not fit.
[[nodiscard]] Result<Arguments> make_arguments(const Signature& signature, const c10::FunctionSchema& schema,
                                               const std::vector<Bound>& bound, const TensorMap& inputs,
                                               const std::vector<bool>& written);

}  // namespace mme::loader
