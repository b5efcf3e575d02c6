// Builds TorchScript modules in C++ from source strings.
// It knows no particular model.
#include "scripts/demo/module_builder.hpp"

#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>

#include <memory>
#include <stdexcept>

namespace mme::models {
namespace {

namespace jit = torch::jit;

/// libtorch's own resolver knows `torch` alone; models also raise.
struct SourceResolver : jit::NativeResolver {
  std::shared_ptr<jit::SugaredValue> resolveValue(const std::string& name, jit::GraphFunction& function,
                                                  const jit::SourceRange& where) override {
    if (name == "RuntimeError" || name == "ValueError") return std::make_shared<jit::ExceptionValue>(name);
    return jit::NativeResolver::resolveValue(name, function, where);
  }
};

jit::Module in_eval_mode(jit::Module module) {
  module.register_attribute("training", c10::BoolType::get(), false);
  return module;
}

c10::QualifiedName qualified(const std::string& class_name) {
  return c10::QualifiedName("__torch__." + class_name);
}

}  // namespace

jit::Module new_module(const std::string& class_name) {
  return in_eval_mode(jit::Module(qualified(class_name)));
}

jit::Module new_submodule(const jit::Module& owner, const std::string& class_name) {
  return in_eval_mode(jit::Module(qualified(class_name), owner._ivalue()->compilation_unit()));
}

jit::Module new_instance(const jit::Module& pattern) {
  const c10::ClassTypePtr type = pattern.type();
  jit::Module made(pattern._ivalue()->compilation_unit(), type);
  for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
    const c10::IValue value = pattern._ivalue()->getSlot(slot);
    if (value.isModule()) throw std::invalid_argument("new_instance: the class has submodules");
    made._ivalue()->setSlot(slot, value.isTensor() ? c10::IValue(value.toTensor().clone()) : value);
  }
  return made;
}

void define(jit::Module& module, const std::string& source) {
  module.define(source, std::make_shared<SourceResolver>());
}

void add_parameter(jit::Module& module, const std::string& name, const torch::Tensor& value) {
  module.register_parameter(name, value.detach(), /*is_buffer=*/false);
}

void save(const jit::Module& module, const std::filesystem::path& file) {
  module.save(file.string());
}

}  // namespace mme::models
