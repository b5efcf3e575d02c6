// Which entry a name means now.
// A hash of names; the few versions and devices of one name are walked.
#include "cache/directory.hpp"

#include <algorithm>

namespace mme::cache {

NameSlot* Directory::find(std::string_view name, const std::optional<std::string>& version,
                          std::string_view device) noexcept {
  const auto found = names_.find(name);
  if (found == names_.end()) {
    return nullptr;
  }
  for (const auto& slot : found->second) {
    if (slot->version == version && slot->device == device) {
      return slot.get();
    }
  }
  return nullptr;
}

std::vector<NameSlot*> Directory::matching(std::string_view name, const std::optional<std::string>& version) {
  std::vector<NameSlot*> exact;
  std::vector<NameSlot*> all;
  const auto found = names_.find(name);
  if (found == names_.end()) {
    return exact;
  }
  for (const auto& slot : found->second) {
    all.push_back(slot.get());
    if (slot->version == version) {
      exact.push_back(slot.get());
    }
  }
  return exact.empty() && !version ? all : exact;
}

NameSlot& Directory::open(const ModelSpec& spec) {
  if (NameSlot* slot = find(spec)) {
    return *slot;
  }
  auto& slot = names_[spec.name].emplace_back(std::make_unique<NameSlot>());
  slot->version = spec.version;
  slot->device = spec.device;
  return *slot;
}

void Directory::remove(const Entry& entry) noexcept {
  NameSlot* slot = find(entry.spec);
  if (slot == nullptr) {
    return;
  }
  if (slot->next == &entry) {
    slot->next = nullptr;
  } else if (slot->current == &entry) {
    slot->current = slot->next;
    slot->next = nullptr;
  }
  if (slot->current == nullptr) {
    const auto found = names_.find(entry.spec.name);
    std::erase_if(found->second, [&](const auto& each) { return each.get() == slot; });
    if (found->second.empty()) {
      names_.erase(found);
    }
  }
}

}  // namespace mme::cache
