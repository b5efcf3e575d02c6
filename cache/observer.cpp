// Spelling of why models leave and what is stuck, as metrics and logs say it.
// No events are made here.
#include "cache/observer.hpp"

namespace mme::cache {

std::string_view to_string(EvictionReason reason) noexcept {
  switch (reason) {
    case EvictionReason::room: return "room";
    case EvictionReason::idle: return "idle";
    case EvictionReason::unload: return "unload";
    case EvictionReason::replaced: return "replaced";
    case EvictionReason::budget: return "budget";
    case EvictionReason::file_changed: return "file_changed";
    case EvictionReason::activations: break;
  }
  return "activations";
}

std::string_view to_string(StuckWork work) noexcept {
  return work == StuckWork::call ? "call" : "load";
}

}  // namespace mme::cache
