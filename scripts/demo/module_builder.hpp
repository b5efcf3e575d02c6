// Builds TorchScript modules in C++ from source strings, for the test models and the example models.
// It trains nothing and knows no particular model; no Python is needed.
#pragma once

#include <torch/script.h>

#include <filesystem>
#include <string>

namespace mme::models {

/// An empty module of class `__torch__.CLASS_NAME` in a compilation unit of its own, in eval mode.
[[nodiscard]] torch::jit::Module new_module(const std::string& class_name);

/// An empty module of another class in the compilation unit of `owner`, so that the two can be saved together.
[[nodiscard]] torch::jit::Module new_submodule(const torch::jit::Module& owner, const std::string& class_name);

/// A further object of the very class of `pattern`: methods are shared, every parameter and buffer starts as a clone.
/// Only for classes without submodules.
[[nodiscard]] torch::jit::Module new_instance(const torch::jit::Module& pattern);

/// Compiles `source` (one or more `def name(self, ...)`) into methods of the module. What the text names must be
/// registered before: attributes, submodules (called as `self.child.forward(x)`). dtypes are written as numbers, as
/// the serializer does (`x.to(4)` is int64). Throws what libtorch throws.
void define(torch::jit::Module& module, const std::string& source);

/// Makes the parameter of that name, without gradient.
void add_parameter(torch::jit::Module& module, const std::string& name, const torch::Tensor& value);

void save(const torch::jit::Module& module, const std::filesystem::path& file);

}  // namespace mme::models
