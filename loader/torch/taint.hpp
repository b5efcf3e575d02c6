// What memory a value of a graph may be or lead to, and which types can lead to any.
// Follows nothing: state_analysis does.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <cstdint>
#include <optional>

namespace mme::loader {

struct Taint {
  bool state = false;                ///< the model's own
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
void absorb(Taint& into, const Taint& other) noexcept;

/// Whether a value of this type is memory that could be written to, or holds some.
[[nodiscard]] bool carries_memory(const c10::Type& type);
/// Lists, dicts, tuples, objects and futures, also optional ones.
[[nodiscard]] bool is_container(const c10::Type& type);

}  // namespace mme::loader
