#include "loader/torch/operator_rules.hpp"

#include <algorithm>
#include <array>

namespace mme::loader {
namespace {

constexpr std::array<std::string_view, 8> statistics_writers{
    "aten::batch_norm",
    "aten::native_batch_norm",
    "aten::_batch_norm_impl_index",
    "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",
    "aten::instance_norm",
    "aten::_native_batch_norm_legit",
    "aten::batch_norm_with_update",
};

constexpr std::array<std::string_view, 10> other_writers{
    "aten::batch_norm_update_stats",
    "aten::batch_norm_gather_stats",
    "aten::batch_norm_gather_stats_with_counts",
    "aten::rrelu",
    "aten::rrelu_with_noise",
    "aten::rrelu_with_noise_",
    "aten::_saturate_weight_to_fp16",
    "quantized::relu6",
    "quantized::leaky_relu",
    "aten::_no_grad_embedding_renorm_",
};

// Most return their argument when there is nothing to do: dropout in eval, a cast to the same type, one matrix.
constexpr std::array<std::string_view, 57> argument_returners{
    "aten::dropout",
    "aten::feature_dropout",
    "aten::alpha_dropout",
    "aten::feature_alpha_dropout",
    "aten::native_dropout",
    "aten::type_as",
    "aten::to_dense",
    "aten::to_mkldnn",
    "aten::pin_memory",
    "aten::contiguous",
    "aten::reshape",
    "aten::flatten",
    "aten::to",
    "aten::cpu",
    "aten::cuda",
    "aten::meshgrid",
    "aten::broadcast_tensors",
    "aten::atleast_1d",
    "aten::atleast_2d",
    "aten::atleast_3d",
    "aten::einsum",
    "aten::sum_to_size",
    "aten::chain_matmul",
    "aten::linalg_multi_dot",
    "aten::cartesian_prod",
    "aten::combinations",
    "aten::pixel_shuffle",
    "aten::pixel_unshuffle",
    "aten::channel_shuffle",
    "aten::repeat_interleave",
    "aten::_cast_Byte",
    "aten::_cast_Char",
    "aten::_cast_Double",
    "aten::_cast_Float",
    "aten::_cast_Int",
    "aten::_cast_Long",
    "aten::_cast_Short",
    "aten::_cast_Half",
    "aten::dequantize",
    "aten::lift",
    "aten::wait",
    "aten::_unsafe_view",
    "aten::data",
    "aten::align_as",
    "aten::conj_physical",
    "aten::_reshape_from_tensor",
    "aten::copy",
    "aten::cumprod_backward",
    "aten::to_mkldnn_backward",
    "aten::_pack_sequence",
    "aten::flatten_dense_tensors",
    "aten::_saturate_weight_to_fp16",
    "aten::_foobar",
    "aten::gather_backward",
    "quantized::dropout",
    "aten::_autocast_to_full_precision",
    "aten::_autocast_to_reduced_precision",
};

constexpr std::array<std::string_view, 17> container_changers{
    "aten::append", "aten::insert",  "aten::extend",      "aten::clear",  "aten::pop",         "aten::remove",
    "aten::sort",   "aten::reverse", "aten::_set_item",   "aten::Delete", "aten::__delitem__", "aten::setdefault",
    "aten::update", "aten::popitem", "aten::__setitem__", "aten::add_",   "aten::mul_",
};

constexpr std::array<std::string_view, 11> foldable{
    "aten::__not__", "aten::__is__", "aten::__isnot__", "aten::__and__", "aten::__or__", "aten::eq",
    "aten::ne",      "aten::lt",     "aten::le",        "aten::gt",      "aten::ge",
};

template <std::size_t size>
bool contains(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

HiddenWrite hidden_write(std::string_view name) noexcept {
  if (contains(statistics_writers, name)) return HiddenWrite::statistics;
  // Collectives write to what they are given, and there is nobody to collect from here.
  if (contains(other_writers, name) || name.starts_with("c10d::")) return HiddenWrite::everything;
  return HiddenWrite::none;
}

bool is_training_flag(std::string_view argument_name) noexcept {
  return argument_name == "training" || argument_name == "train" || argument_name == "use_input_stats";
}

bool may_return_argument(std::string_view name) noexcept {
  // Sparse tensors are made of the tensors that they are given; what the interpreter's own operators do is not told.
  const bool of_a_kind =
      name.starts_with("prim::") || name.starts_with("aten::_test_") || name.find("sparse") != std::string_view::npos;
  return of_a_kind || contains(argument_returners, name);
}

bool points_elsewhere(std::string_view name) noexcept {
  return name == "aten::set_" || name == "aten::set" || name == "aten::set_data";
}

bool returns_inner_memory(std::string_view name) noexcept {
  return name.starts_with("aten::q_per_channel_") || name.find("unpack") != std::string_view::npos;
}

bool changes_container_only(std::string_view name) noexcept {
  return contains(container_changers, name);
}

bool compares_identity(std::string_view name) noexcept {
  return name == "aten::__is__" || name == "aten::__isnot__";
}

bool is_foldable(std::string_view name) noexcept {
  return contains(foldable, name);
}

}  // namespace mme::loader
