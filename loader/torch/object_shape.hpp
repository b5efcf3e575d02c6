// What of a model's attributes can decide which of its code runs, in one form: everything but the elements of tensors.
// Reads only.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>

namespace mme::loader {

/// Equal shapes: same classes, flags, numbers, strings, lengths and None in the same places, and the same objects
/// shared. nullopt: holds values of kinds that are not looked into, or is too large to be worth it.
[[nodiscard]] std::optional<std::string> shape_of(const c10::IValue& root);

}  // namespace mme::loader
