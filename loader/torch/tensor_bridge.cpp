#include "loader/torch/tensor_bridge.hpp"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <torch/version.h>

#include <cstring>
#include <limits>
#include <string>

namespace mme::loader {
namespace {

c10::TypePtr without_optional(const c10::TypePtr& type, bool& optional) {
  const auto inner = type->cast<c10::OptionalType>();
  if (!inner) return type;
  optional = true;
  return inner->getElementType();
}

ArgumentKind kind_of(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType: return ArgumentKind::tensor;
    case c10::TypeKind::StringType: return ArgumentKind::string;
    case c10::TypeKind::IntType: return ArgumentKind::integer;
    case c10::TypeKind::FloatType: return ArgumentKind::real;
    case c10::TypeKind::BoolType: return ArgumentKind::boolean;
    case c10::TypeKind::ListType: {
      const auto element = type->expectRef<c10::ListType>().getElementType()->kind();
      if (element == c10::TypeKind::TensorType) return ArgumentKind::tensor_list;
      if (element == c10::TypeKind::StringType) return ArgumentKind::string_list;
      return ArgumentKind::unsupported;
    }
    case c10::TypeKind::DictType: {
      const auto& dict = type->expectRef<c10::DictType>();
      const bool fits = dict.getKeyType()->kind() == c10::TypeKind::StringType &&
                        dict.getValueType()->kind() == c10::TypeKind::TensorType;
      return fits ? ArgumentKind::tensor_dict : ArgumentKind::unsupported;
    }
    default: return ArgumentKind::unsupported;
  }
}

template <class T>
T first_element(const Tensor& tensor) {
  T value{};
  std::memcpy(&value, tensor.data().data(), sizeof(T));
  return value;
}

std::optional<std::int64_t> integer_in(const Tensor& tensor) {
  switch (tensor.type()) {
    case DataType::uint8: return first_element<std::uint8_t>(tensor);
    case DataType::uint16: return first_element<std::uint16_t>(tensor);
    case DataType::uint32: return first_element<std::uint32_t>(tensor);
    case DataType::int8: return first_element<std::int8_t>(tensor);
    case DataType::int16: return first_element<std::int16_t>(tensor);
    case DataType::int32: return first_element<std::int32_t>(tensor);
    case DataType::int64: return first_element<std::int64_t>(tensor);
    case DataType::uint64: {
      const auto value = first_element<std::uint64_t>(tensor);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default: return std::nullopt;
  }
}

std::optional<double> real_in(const Tensor& tensor) {
  switch (tensor.type()) {
    case DataType::fp16: return static_cast<float>(first_element<c10::Half>(tensor));
    case DataType::bf16: return static_cast<float>(first_element<c10::BFloat16>(tensor));
    case DataType::fp32: return first_element<float>(tensor);
    case DataType::fp64: return first_element<double>(tensor);
    case DataType::uint64: return static_cast<double>(first_element<std::uint64_t>(tensor));
    default: break;
  }
  const auto integer = integer_in(tensor);
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

/// Makes one call's arguments; stops at the first that cannot be made.
class ArgumentMaker {
 public:
  ArgumentMaker(const Signature& signature, const c10::FunctionSchema& schema, const TensorMap& inputs)
      : signature_(signature), schema_(schema), inputs_(inputs) {}

  Result<Arguments> make(const std::vector<Bound>& bound, const std::vector<bool>& written) {
    arguments_.values.reserve(bound.size());
    for (std::size_t i = 0; i < bound.size(); ++i) {
      copy_ = written[i];
      arguments_.values.push_back(bound[i].missing ? absent(i) : value(signature_.arguments[i].kind, bound[i]));
      if (error_) return *error_;
    }
    return std::move(arguments_);
  }

 private:
  c10::IValue absent(std::size_t index) {
    const auto& standard = schema_.arguments()[index + 1].default_value();
    return standard ? *standard : c10::IValue();
  }

  c10::IValue value(ArgumentKind kind, const Bound& bound) {
    const NamedTensor& first = inputs_[bound.tensors.front()];
    switch (kind) {
      case ArgumentKind::tensor: return tensor(first);
      case ArgumentKind::string: return first.tensor.strings().front();
      case ArgumentKind::string_list: return strings(first.tensor);
      case ArgumentKind::integer: return number(first, integer_in(first.tensor));
      case ArgumentKind::real: return number(first, real_in(first.tensor));
      case ArgumentKind::boolean: return first_element<std::uint8_t>(first.tensor) != 0;
      case ArgumentKind::tensor_list: return tensors(bound);
      case ArgumentKind::tensor_dict: return dictionary(bound);
      case ArgumentKind::unsupported: break;
    }
    refuse(first.name, "fills an argument that a request cannot fill");
    return {};
  }

  template <class T>
  c10::IValue number(const NamedTensor& input, const std::optional<T>& value) {
    if (value) return *value;
    refuse(input.name, "holds a number that does not fit 64 bits with a sign");
    return {};
  }

  static c10::IValue strings(const Tensor& tensor) {
    c10::List<std::string> list;
    list.reserve(tensor.strings().size());
    for (const std::string& text : tensor.strings()) list.push_back(text);
    return list;
  }

  c10::IValue tensors(const Bound& bound) {
    c10::List<at::Tensor> list;
    for (const std::size_t index : bound.tensors) list.push_back(tensor(inputs_[index]));
    return list;
  }

  c10::IValue dictionary(const Bound& bound) {
    c10::Dict<std::string, at::Tensor> dict;
    for (std::size_t i = 0; i < bound.tensors.size(); ++i)
      dict.insert(bound.keys[i], tensor(inputs_[bound.tensors[i]]));
    return dict;
  }

  at::Tensor tensor(const NamedTensor& input) {
    const Tensor& given = input.tensor;
    const auto type = scalar_type_of(given.type());
    if (!type) {
      refuse(input.name, "is " + std::string(to_string(given.type())) + ", which this libtorch has no tensors of");
      return {};
    }
    const auto options = at::TensorOptions().dtype(*type);
    if (given.data().empty()) return at::empty(given.shape(), options);  // null data must not be wrapped
    const auto* data = given.data().data();
    const bool aligned = reinterpret_cast<std::uintptr_t>(data) % element_size(given.type()) == 0;
    if (copy_ || !aligned) {
      at::Tensor copy = at::empty(given.shape(), options);
      std::memcpy(copy.data_ptr(), data, given.data().size());
      return copy;
    }
    // Never written to through this pointer: `copy_` is set for arguments that the model may write to.
    void* bytes = const_cast<std::byte*>(data);
    at::Tensor wrapped = at::from_blob(
        bytes, given.shape(), [owner = given.owner()](void*) {}, options);
    arguments_.wrapped.push_back(wrapped);
    return wrapped;
  }

  void refuse(const std::string& name, const std::string& why) {
    if (!error_) error_ = fail(ErrorCode::invalid_tensor, "input '" + name + "' " + why);
  }

  const Signature& signature_;
  const c10::FunctionSchema& schema_;
  const TensorMap& inputs_;
  bool copy_ = false;
  Arguments arguments_;
  std::optional<Error> error_;
};

}  // namespace

std::optional<at::ScalarType> scalar_type_of(DataType type) noexcept {
  switch (type) {
    case DataType::boolean: return at::kBool;
    case DataType::uint8: return at::kByte;
    case DataType::int8: return at::kChar;
    case DataType::int16: return at::kShort;
    case DataType::int32: return at::kInt;
    case DataType::int64: return at::kLong;
    case DataType::fp16: return at::kHalf;
    case DataType::bf16: return at::kBFloat16;
    case DataType::fp32: return at::kFloat;
    case DataType::fp64: return at::kDouble;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    case DataType::uint16: return at::kUInt16;
    case DataType::uint32: return at::kUInt32;
    case DataType::uint64: return at::kUInt64;
#else
    case DataType::uint16:
    case DataType::uint32:
    case DataType::uint64:
#endif
    case DataType::bytes: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<DataType> data_type_of(at::ScalarType type) noexcept {
  for (int i = 0; i < static_cast<int>(DataType::bytes); ++i) {
    const auto candidate = static_cast<DataType>(i);
    if (scalar_type_of(candidate) == type) return candidate;
  }
  return std::nullopt;
}

Signature signature_of(const c10::FunctionSchema& schema) {
  Signature signature;
  for (std::size_t i = 1; i < schema.arguments().size(); ++i) {
    const c10::Argument& given = schema.arguments()[i];
    Argument argument;
    argument.name = given.name();
    argument.optional = given.default_value().has_value();
    argument.kind = kind_of(without_optional(given.type(), argument.optional));
    argument.type_name = given.type()->annotation_str();
    signature.arguments.push_back(std::move(argument));
  }
  return signature;
}

Result<Arguments> make_arguments(const Signature& signature, const c10::FunctionSchema& schema,
                                 const std::vector<Bound>& bound, const TensorMap& inputs,
                                 const std::vector<bool>& written) {
  return ArgumentMaker(signature, schema, inputs).make(bound, written);
}

}  // namespace mme::loader
