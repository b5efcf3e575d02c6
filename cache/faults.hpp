// Defects that can be planted at build time, to prove that the tests see them: the macro MME_FAULT names one.
// Without it there is none, and nothing of this is left in the program.
#pragma once

#include <algorithm>
#include <string_view>

#ifndef MME_FAULT
#define MME_FAULT ""
#endif

namespace mme::cache {

/// Each has a test that must turn red: tests/cache/planted_faults.cmake (built with -DMME_PLANTED_FAULTS=ON).
inline constexpr std::string_view faults[] = {
    "lease_not_taken",         // a model in use may be evicted
    "second_load",             // a caller that finds a load under way starts another
    "most_recent_first",       // victims are taken from the wrong end
    "wake_up_dropped",         // the end of a lease wakes nobody
    "draining_uncharged",      // memory on its way out counts as free
    "grant_not_returned",      // what a grant held stays charged
    "segment_freed_early",     // a segment's charge ends with its first holder
    "segments_held_in_queue",  // a claim keeps room from the one before it
    "overdue_off",             // a cold model waits behind a steady stream for ever
};

/// Whether the named defect is planted in this build.
consteval bool fault(std::string_view name) {
  static_assert(std::string_view(MME_FAULT).empty() || std::ranges::find(faults, MME_FAULT) != std::ranges::end(faults),
                "MME_FAULT names no fault");
  return name == MME_FAULT;
}

}  // namespace mme::cache
