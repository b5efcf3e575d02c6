#include "loader/torch/bounds_check.hpp"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "loader/torch/c10_allocator.hpp"

namespace mme::loader {
namespace {

/// Bytes of storage that a strided tensor reaches; false when sizes or strides leave 64 bits or are negative.
bool extent(const at::Tensor& tensor, std::uint64_t& bytes) {
  std::int64_t last = tensor.storage_offset();
  if (last < 0) return false;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    std::int64_t reach = 0;
    if (tensor.size(d) < 0 || tensor.stride(d) < 0) return false;
    if (__builtin_mul_overflow(tensor.size(d) - 1, tensor.stride(d), &reach)) return false;
    if (__builtin_add_overflow(last, reach, &last)) return false;
  }
  return !__builtin_mul_overflow(static_cast<std::uint64_t>(last) + 1, tensor.dtype().itemsize(), &bytes);
}

class Walk {
 public:
  std::optional<std::string> attributes(const c10::IValue& root) {
    pending_.push_back(root);
    while (!pending_.empty() && !problem_) {
      const c10::IValue value = std::move(pending_.back());
      pending_.pop_back();
      look(value);
    }
    return problem_;
  }

  std::optional<std::string> constants(const torch::jit::Block* block) {
    for (const torch::jit::Node* node : block->nodes()) {
      if (node->kind() == c10::prim::Constant && !node->outputs().empty()) {
        if (const auto value = torch::jit::toIValue(node->output())) attributes(*value);
      }
      for (const torch::jit::Block* inner : node->blocks()) constants(inner);
      if (problem_) break;
    }
    return problem_;
  }

 private:
  void look(const c10::IValue& value) {
    if (value.isTensor()) return tensor(value.toTensor());
    if (value.isTuple()) return push(value.toTupleRef().elements());
    if (value.isTensorList()) {
      for (const at::Tensor& one : value.toTensorVector()) tensor(one);
    } else if (value.isList()) {
      if (first_visit(value)) push(value.toListRef());
    } else if (value.isGenericDict()) {
      if (!first_visit(value)) return;
      for (const auto& entry : value.toGenericDict()) {
        pending_.push_back(entry.key());
        pending_.push_back(entry.value());
      }
    } else if (value.isObject()) {
      if (first_visit(value)) push(value.toObjectRef().slots());
    }
  }

  template <class Values>
  void push(const Values& values) {
    for (const c10::IValue& value : values) pending_.push_back(value);
  }

  bool first_visit(const c10::IValue& value) { return seen_.insert(value.internalToPointer()).second; }

  void tensor(const at::Tensor& given) {
    if (!given.defined() || given.is_meta()) return;
    if (given.layout() == at::kSparse) {
      tensor(given._indices());
      return tensor(given._values());
    }
    if (given.layout() != at::kStrided) return;
    if (given.is_quantized() && (given.qscheme() == at::kPerChannelAffine)) {
      tensor(given.q_per_channel_scales());
      tensor(given.q_per_channel_zero_points());
    }
    if (given.numel() == 0) return;
    const at::Storage& storage = given.storage();
    // A storage has the size that the pickle says; the block behind it has the size of the record.
    const std::size_t behind = block_size(storage.data_ptr()).value_or(storage.nbytes());
    std::uint64_t needed = 0;
    if (!extent(given, needed) || needed > storage.nbytes() || storage.nbytes() > behind || storage.data() == nullptr) {
      problem_ = "a tensor reaches beyond the data that the archive has for it";
    }
  }

  std::vector<c10::IValue> pending_;
  std::unordered_set<const void*> seen_;
  std::optional<std::string> problem_;
};

}  // namespace

std::optional<std::string> tensor_out_of_bounds(const torch::jit::Module& module, bool known_code) {
  Walk walk;
  if (auto problem = walk.attributes(module._ivalue())) return problem;
  if (known_code) return std::nullopt;
  for (torch::jit::Function* function : module._ivalue()->compilation_unit()->get_functions()) {
    auto* graph_function = torch::jit::tryToGraphFunction(*function);
    if (graph_function == nullptr) continue;
    if (auto problem = walk.constants(graph_function->graph()->block())) return problem;
  }
  return std::nullopt;
}

}  // namespace mme::loader
