#include "loader/torch/weight_run.hpp"

#include <cstring>

namespace mme::loader {

WeightRun::~WeightRun() {
  map_->give_back(part_);
  uncharge();
}

bool WeightRun::charge_to(MemoryAccount& account) noexcept {
  if (!account.charge(bytes_, BlockKind::tensor)) return false;
  payer_.store(&account);
  return true;
}

void WeightRun::uncharge() noexcept {
  if (MemoryAccount* payer = payer_.exchange(nullptr)) payer->release(bytes_, BlockKind::tensor);
}

bool WeightRun::holds_the_same_as(const WeightRun& other) const noexcept {
  if (weights_.size() != other.weights_.size()) return false;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const std::size_t size = weights_[i].size;
    if (size != other.weights_[i].size || std::memcmp(data(i), other.data(i), size) != 0) return false;
  }
  return true;
}

}  // namespace mme::loader
