// What memory a value of a graph may be or lead to, and which types can lead to any.
// Follows nothing: state_analysis does.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace mme::loader {

/// Tensors of the model's state by their numbers: some, or any of them.
class StateTensors {
 public:
  [[nodiscard]] static StateTensors any() {
    StateTensors all;
    all.any_ = true;
    return all;
  }
  [[nodiscard]] static StateTensors one(std::size_t number) {
    StateTensors one;
    one.numbers_.push_back(number);
    return one;
  }
  [[nodiscard]] bool is_any() const noexcept { return any_; }
  /// Ascending.
  [[nodiscard]] const std::vector<std::size_t>& numbers() const noexcept { return numbers_; }
  /// More than `most` are any: to follow them all would take long, and writers to so many are rare.
  void add(const StateTensors& others, std::size_t most = 16);
  friend bool operator==(const StateTensors&, const StateTensors&) = default;

 private:
  bool any_ = false;
  std::vector<std::size_t> numbers_;
};

/// Finds the numbers of tensors.
class TensorNumbers {
 public:
  /// In this order; they must stay where they are.
  explicit TensorNumbers(const std::vector<at::Tensor>& tensors);
  /// What a value is or holds: of objects and large containers any, and any for what has no number.
  [[nodiscard]] StateTensors in(const c10::IValue& value) const;

 private:
  [[nodiscard]] StateTensors in(const c10::IValue& value, int& values_left) const;

  std::unordered_map<const c10::TensorImpl*, std::size_t> numbers_;
};

struct Taint {
  bool state = false;                ///< the model's own: objects, containers or tensors
  StateTensors tensors;              ///< of the state, that it may be or lie in
  std::uint64_t arguments = 0;       ///< one bit per argument of forward; the last stands for all beyond it
  std::optional<c10::IValue> exact;  ///< the very value, when it is the same in every call

  [[nodiscard]] static std::uint64_t bit_of(std::size_t argument) noexcept {
    return std::uint64_t{1} << (argument < 63 ? argument : 63);
  }
};

[[nodiscard]] bool is_same(const Taint& a, const Taint& b);
/// Either of two; exact only when both are the same value.
[[nodiscard]] Taint join(const Taint& a, const Taint& b);
/// Adds the memory of `other`; leaves what is exact alone.
void absorb(Taint& into, const Taint& other);

/// Whether a value of this type is memory that could be written to, or holds some.
[[nodiscard]] bool carries_memory(const c10::Type& type);
/// Whether it may hold other values: lists, dicts, tuples, objects, futures, also optional ones, and what can be any of
/// these.
[[nodiscard]] bool is_container(const c10::Type& type);

}  // namespace mme::loader
