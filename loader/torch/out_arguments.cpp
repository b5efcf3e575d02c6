#include "loader/torch/out_arguments.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace mme::loader {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool returns_out_arguments(const c10::FunctionSchema& schema) {
  return schema.returns().size() > 1 && std::ranges::all_of(schema.returns(), is_written);
}

/// The same operation, by which the arguments that it writes to outlive it.
torch::jit::Operation holding(const torch::jit::Operator& original) {
  std::vector<std::size_t> from_top;
  const auto& arguments = original.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (is_written(arguments[i])) from_top.push_back(arguments.size() - i);
  }
  return [run = original.getOperation(), from_top = std::move(from_top)](torch::jit::Stack& stack) mutable {
    std::vector<c10::IValue> held;
    held.reserve(from_top.size());
    for (const std::size_t depth : from_top) held.push_back(stack[stack.size() - depth]);
    run(stack);
  };
}

}  // namespace

std::size_t hold_out_arguments() {
  std::vector<std::shared_ptr<torch::jit::Operator>> found;
  for (const auto& each : torch::jit::getAllOperators()) {
    if (each->isC10Op() && returns_out_arguments(each->schema())) found.push_back(each);
  }
  for (const auto& original : found) {
    const auto& name = original->schema().operator_name();
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str());
    torch::jit::Operator held(handle, holding(*original));
    torch::jit::deregisterOperator(original->schema());
    torch::jit::registerOperator(std::move(held));
  }
  return found.size();
}

}  // namespace mme::loader
