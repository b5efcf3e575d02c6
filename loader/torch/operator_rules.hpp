// What operator schemas do not say: which operators write to an argument, or return one, without declaring it.
// Plain tables of names; knows no libtorch.
#pragma once

#include <string_view>

namespace mme::loader {

/// How an operator writes in spite of its schema.
enum class HiddenWrite {
  none,
  statistics,  ///< to arguments named running_*, unless its training flag is false
  everything,  ///< to any argument, unless it has a training flag that is false
};
[[nodiscard]] HiddenWrite hidden_write(std::string_view qualified_name) noexcept;

/// True for the arguments of such an operator that switch the writing on.
[[nodiscard]] bool is_training_flag(std::string_view argument_name) noexcept;

/// True when a result may be an argument, or a view of one, although the schema declares a new tensor.
[[nodiscard]] bool may_return_argument(std::string_view qualified_name) noexcept;

/// True when an argument may share the memory of another one afterwards.
[[nodiscard]] bool points_elsewhere(std::string_view qualified_name) noexcept;

/// True when a result may lie in memory that belongs to an argument but is none of its tensors: scales, packed weights.
[[nodiscard]] bool returns_inner_memory(std::string_view qualified_name) noexcept;

/// True when a write to a list or dict changes what it holds, and no memory of that.
[[nodiscard]] bool changes_container_only(std::string_view qualified_name) noexcept;

/// True for comparisons and logic whose result on known scalars (and None) can be computed ahead of the call.
[[nodiscard]] bool is_foldable(std::string_view qualified_name) noexcept;

/// True for those that ask only whether two values are the same one.
[[nodiscard]] bool compares_identity(std::string_view qualified_name) noexcept;

}  // namespace mme::loader
