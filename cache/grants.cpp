// The values that give back by themselves.
// Each member is one call of the shell.
#include "cache/grants.hpp"

#include <utility>

#include "cache/shell.hpp"

namespace mme::cache {

CallGrant::~CallGrant() {
  if (account_.open) {  // nobody else can reach it any more
    shell_->close(account_);
  }
}
bool CallGrant::grow(std::size_t bytes) noexcept {
  return shell_->grow(account_, bytes);
}
void CallGrant::shrink(std::size_t bytes) noexcept {
  shell_->shrink(account_, bytes);
}
void CallGrant::keep(std::size_t bytes) noexcept {
  shell_->keep(account_, bytes, false);
}
void CallGrant::keep_in_code(std::size_t bytes) noexcept {
  shell_->keep(account_, bytes, true);
}

bool LoadGrant::grow(std::size_t bytes) noexcept {
  return shell_->grow_load(entry_, bytes);
}
void LoadGrant::shrink(std::size_t bytes) noexcept {
  shell_->shrink_load(entry_, bytes);
}
bool LoadGrant::make_private(const loader::Segment& segment) noexcept {
  return shell_->make_private(entry_, segment);
}

CallHold::CallHold(std::shared_ptr<Shell> shell) : shell_(std::move(shell)) {
  auto made = std::make_shared<CallGrant>(shell_);
  call_grant_ = made.get();
  grant = std::move(made);
}

CallHold::~CallHold() {
  if (terms_.entry != nullptr) {
    shell_->end_lease(terms_, account(), grant.use_count() == 1);
  }
}

/// A refused call took at least its peak, so that is worth knowing too.
void CallHold::learn(std::size_t peak_bytes, bool /*refused*/) noexcept {
  shell_->learn(terms_, peak_bytes);
}

void CallHold::start(const LeaseTerms& terms) noexcept {
  terms_ = terms;
  model = terms.entry->model.get();
  granted_bytes = terms.granted;
  timing = {terms.result, terms.load, terms.queue};
}

}  // namespace mme::cache
