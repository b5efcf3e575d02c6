#include "loader/torch/taint.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mme::loader {
namespace {

bool is_same_value(const c10::IValue& a, const c10::IValue& b) {
  if (a.isBool() && b.isBool()) return a.toBool() == b.toBool();
  if (a.isInt() && b.isInt()) return a.toInt() == b.toInt();
  return a.is(b);
}

}  // namespace

void StateTensors::add(const StateTensors& others, std::size_t most) {
  std::vector<std::size_t> both;
  if (!any_ && !others.any_) std::ranges::set_union(numbers_, others.numbers_, std::back_inserter(both));
  any_ = any_ || others.any_ || both.size() > most;
  numbers_ = any_ ? std::vector<std::size_t>() : std::move(both);
}

TensorNumbers::TensorNumbers(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) numbers_.emplace(tensor.unsafeGetTensorImpl(), numbers_.size());
}

StateTensors TensorNumbers::in(const c10::IValue& value) const {
  int values_left = 64;
  return in(value, values_left);
}

StateTensors TensorNumbers::in(const c10::IValue& value, int& values_left) const {
  StateTensors all;
  const auto in_all = [&](const auto& values) {
    for (const c10::IValue& each : values) all.add(in(each, values_left));
    return all;
  };
  if (--values_left < 0) return StateTensors::any();
  if (value.isTensor()) {
    const auto found = numbers_.find(value.unsafeToTensorImpl());
    return found == numbers_.end() ? StateTensors::any() : StateTensors::one(found->second);
  }
  if (value.isTuple()) return in_all(value.toTupleRef().elements());
  if (value.isList()) return in_all(value.toListRef());
  const bool leads_nowhere = value.isNone() || value.isScalar() || value.isString();
  return leads_nowhere ? all : StateTensors::any();
}

bool is_same(const Taint& a, const Taint& b) {
  if (a.state != b.state || a.tensors != b.tensors || a.arguments != b.arguments) return false;
  if (a.exact.has_value() != b.exact.has_value()) return false;
  return !a.exact || is_same_value(*a.exact, *b.exact);
}

Taint join(const Taint& a, const Taint& b) {
  Taint both;
  absorb(both, a);
  absorb(both, b);
  if (a.exact && b.exact && is_same_value(*a.exact, *b.exact)) both.exact = a.exact;
  return both;
}

void absorb(Taint& into, const Taint& other) {
  into.state = into.state || other.state;
  into.tensors.add(other.tensors);
  into.arguments |= other.arguments;
}

bool carries_memory(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::NoneType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::FunctionType:
    case c10::TypeKind::EnumType: return false;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::TupleType:
      return std::ranges::any_of(type.containedTypes(),
                                 [](const c10::TypePtr& inner) { return carries_memory(*inner); });
    default: return true;
  }
}

bool is_container(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType: return false;
    case c10::TypeKind::OptionalType:
      return std::ranges::any_of(type.containedTypes(), [](const c10::TypePtr& inner) { return is_container(*inner); });
    default: return carries_memory(type);
  }
}

}  // namespace mme::loader
