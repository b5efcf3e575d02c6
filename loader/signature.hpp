// What a model takes and returns, and how tensors named by a client are bound to its arguments.
// Pure: knows names and kinds, never a libtorch value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "loader/tensor.hpp"

namespace mme::loader {

/// Kinds of argument a client can fill.
enum class ArgumentKind {
  tensor,
  string,       ///< str: a BYTES tensor with one element
  string_list,  ///< List[str]: a BYTES tensor
  integer,      ///< int: an integer tensor with one element
  real,         ///< float: a numeric tensor with one element
  boolean,      ///< bool: a BOOL tensor with one element
  tensor_list,  ///< List[Tensor]: tensors named `x.0`, `x.1`, ... without a gap
  tensor_dict,  ///< Dict[str, Tensor]: tensors named `x.key`
  unsupported,  ///< anything else; the model can be called only when such an argument has a default
};

struct Argument {
  std::string name;
  ArgumentKind kind = ArgumentKind::tensor;
  bool optional = false;  ///< may be left out: has a default, or is Optional[...]
  std::string type_name;  ///< the model's own spelling of the type, for messages
};

/// What is known of a tensor before a call, for model metadata.
struct TensorInfo {
  std::string name;
  DataType type = DataType::fp32;
  Shape shape{-1};  ///< -1 stands for "any"
};

struct Signature {
  std::vector<Argument> arguments;  ///< in the order of `forward`, without self
  std::vector<TensorInfo> outputs;  ///< empty until something is known of them
};

/// For one argument: which of the given tensors fill it. `missing` means: use the default.
struct Bound {
  std::vector<std::size_t> tensors;  ///< indices into the given map; list order for tensor_list
  std::vector<std::string> keys;     ///< tensor_dict only: the key of each
  bool missing = false;
};

/// Binds named tensors to arguments. A tensor is matched by the argument's name, by `INPUT__i` for the i-th argument,
/// or, for lists and dicts, by `name.index` / `name.key` (also `INPUT__i.index`). Order does not matter.
/// Fails with invalid_tensor naming what is missing, unknown, given twice or of the wrong kind.
[[nodiscard]] Result<std::vector<Bound>> bind(const Signature& signature, const TensorMap& inputs);

/// Inputs as model metadata lists them: undeclared tensors as FP32 [-1], List[str] as BYTES [-1].
[[nodiscard]] std::vector<TensorInfo> describe_inputs(const Signature& signature);

}  // namespace mme::loader
