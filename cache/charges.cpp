// The sums of charged bytes by kind.
// No policy here.
#include "cache/charges.hpp"

#include <algorithm>
#include <cassert>

namespace mme::cache {

std::size_t& Charges::of(Kind kind) noexcept {
  switch (kind) {
    case Kind::weights: return use_.weights;
    case Kind::code: return use_.code;
    case Kind::loading: return use_.loading;
    case Kind::draining: return use_.draining;
    case Kind::activations: return use_.activations;
    case Kind::bodies: break;
  }
  return use_.bodies;
}

void Charges::add(Kind kind, std::size_t bytes) noexcept {
  of(kind) += bytes;
}

void Charges::sub(Kind kind, std::size_t bytes) noexcept {
  std::size_t& sum = of(kind);
  assert(bytes <= sum);
  sum -= std::min(sum, bytes);
}

}  // namespace mme::cache
