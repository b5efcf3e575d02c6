#include "loader/torch/taint.hpp"

#include <algorithm>

namespace mme::loader {
namespace {

bool is_same_value(const c10::IValue& a, const c10::IValue& b) {
  if (a.isBool() && b.isBool()) return a.toBool() == b.toBool();
  if (a.isInt() && b.isInt()) return a.toInt() == b.toInt();
  return a.is(b);
}

}  // namespace

bool is_same(const Taint& a, const Taint& b) {
  if (a.state != b.state || a.arguments != b.arguments || a.exact.has_value() != b.exact.has_value()) return false;
  return !a.exact || is_same_value(*a.exact, *b.exact);
}

Taint join(const Taint& a, const Taint& b) {
  Taint both{a.state || b.state, a.arguments | b.arguments, std::nullopt};
  if (a.exact && b.exact && is_same_value(*a.exact, *b.exact)) both.exact = a.exact;
  return both;
}

void absorb(Taint& into, const Taint& other) noexcept {
  into.state = into.state || other.state;
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
    case c10::TypeKind::ListType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::TupleType:
    case c10::TypeKind::ClassType:
    case c10::TypeKind::FutureType: return true;
    case c10::TypeKind::OptionalType:
      return std::ranges::any_of(type.containedTypes(), [](const c10::TypePtr& inner) { return is_container(*inner); });
    default: return false;
  }
}

}  // namespace mme::loader
