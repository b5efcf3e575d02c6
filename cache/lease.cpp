// The lease: forwards to the hold that the cache gave it.
// What a hold gives back, and to whom, is in call_hold.hpp.
#include "cache/lease.hpp"

#include <utility>

namespace mme::cache {

Lease& Lease::operator=(Lease&&) noexcept = default;
Lease::~Lease() = default;

loader::Model& Lease::model() const noexcept {
  return *hold_->model;
}

const Lease::Timing& Lease::timing() const noexcept {
  return hold_->timing;
}

loader::CallContext Lease::context(loader::Deadline deadline) const {
  loader::CallContext context;
  context.memory = hold_->grant;
  context.granted_bytes = hold_->granted_bytes;
  context.deadline = deadline;
  return context;
}

void Lease::finish(const loader::CallContext& context, bool refused) noexcept {
  if (hold_) {
    hold_->learn(context.peak_bytes, refused);
    hold_.reset();
  }
}

}  // namespace mme::cache
