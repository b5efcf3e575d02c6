// What of a model's attributes can decide which of its code runs, in one form: everything but the elements of tensors.
// Reads only.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

namespace mme::loader {

struct ObjectShape {
  /// Equal texts: same classes, flags, numbers, strings, lengths and None in the same places, and the same objects
  /// shared.
  std::string text;
  /// Every tensor that can be reached, once. Trees with equal texts have as many, in the same places in this order.
  std::vector<at::Tensor> tensors;
};

/// nullopt: holds values of kinds that are not looked into, or is too large to be worth it.
[[nodiscard]] std::optional<ObjectShape> shape_of(const c10::IValue& root);

}  // namespace mme::loader
