#include "loader/torch/object_shape.hpp"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

#include <cstring>
#include <unordered_map>
#include <utility>

namespace mme::loader {
namespace {

constexpr std::size_t largest_shape = std::size_t{1} << 20;

class ShapeWriter {
 public:
  std::optional<ObjectShape> write(const c10::IValue& root) {
    pending_.push_back(root);
    while (!pending_.empty()) {
      const c10::IValue value = std::move(pending_.back());
      pending_.pop_back();
      if (!one(value) || shape_.size() > largest_shape) return std::nullopt;
    }
    return ObjectShape{std::move(shape_), std::move(tensors_)};
  }

 private:
  template <class Number>
  bool number(char tag, Number value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    shape_ += tag;
    shape_.append(bytes, sizeof bytes);
    return true;
  }

  template <class Values>
  bool elements(char tag, const Values& values) {
    number(tag, values.size());
    for (const c10::IValue& value : values) pending_.push_back(value);
    return true;
  }

  /// Whether it was met before; then only that is written.
  bool met(const c10::IValue& value) {
    const auto [at, is_new] = seen_.emplace(value.internalToPointer(), seen_.size());
    if (!is_new) number('=', at->second);
    return !is_new;
  }

  bool one(const c10::IValue& value) {
    if (value.isTensor()) return tensor(value.toTensor());
    if (value.isNone()) return number('n', char{0});
    if (value.isBool()) return number('b', value.toBool());
    if (value.isInt()) return number('i', value.toInt());
    if (value.isDouble()) return number('d', value.toDouble());
    if (value.isString()) return text(value.toStringRef());
    if (value.isTuple()) return elements('u', value.toTupleRef().elements());
    if (value.isList()) return met(value) || list(value);
    if (value.isGenericDict()) return met(value) || dict(value);
    if (value.isObject()) return met(value) || object(value);
    return false;
  }

  /// Whether two attributes are one tensor can be asked by code.
  bool tensor(const at::Tensor& value) {
    if (!value.defined()) return number('t', char{0});
    const auto [at, is_new] = seen_.emplace(value.unsafeGetTensorImpl(), seen_.size());
    if (is_new) tensors_.push_back(value);
    return number(is_new ? 'T' : '=', at->second);
  }

  bool text(const std::string& value) {
    number('s', value.size());
    shape_ += value;
    return true;
  }

  bool list(const c10::IValue& value) {
    const auto copy = value.toListRef();
    return elements('l', copy);
  }

  bool dict(const c10::IValue& value) {
    const auto entries = value.toGenericDict();
    number('m', entries.size());
    for (const auto& entry : entries) {
      pending_.push_back(entry.key());
      pending_.push_back(entry.value());
    }
    return true;
  }

  bool object(const c10::IValue& value) {
    const auto& object = value.toObjectRef();
    number('o', object.type().get());  // classes of one compilation unit live as long as it does
    return elements('a', object.slots());
  }

  std::vector<c10::IValue> pending_;
  std::unordered_map<const void*, std::size_t> seen_;
  std::string shape_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace

std::optional<ObjectShape> shape_of(const c10::IValue& root) {
  return ShapeWriter().write(root);
}

}  // namespace mme::loader
