# For each defect of cache/faults.hpp: the cache with that defect, the rules' suite, and the test that must turn red.
# `planted_fault(NAME TEST)` makes the ctest case fault_NAME.
get_target_property(cache_sources mme_cache SOURCES)
list(TRANSFORM cache_sources PREPEND ${PROJECT_SOURCE_DIR}/cache/)
add_library(rules_tests OBJECT ${RULES_TESTS})
target_link_libraries(rules_tests PRIVATE mme_catch mme_loader)

function(planted_fault name test)
  add_executable(fault_${name} ${cache_sources})
  target_compile_definitions(fault_${name} PRIVATE "MME_FAULT=\"${name}\"")
  target_link_libraries(fault_${name} PRIVATE rules_tests mme_catch mme_loader Threads::Threads)
  mme_turns_red(fault_${name} "${test}" $<TARGET_FILE:test_cache> $<TARGET_FILE:fault_${name}>)
endfunction()

planted_fault(lease_not_taken "A model is never evicted while it runs; the claim waits for the lease to end")
planted_fault(second_load "A model is loaded once, however many ask for it (R1)")
planted_fault(most_recent_first "The least recently used model leaves first (R7)")
planted_fault(wake_up_dropped "No more calls run than there are slots, and the next starts when one ends (R4)")
planted_fault(draining_uncharged "A victim stays charged until its memory is back (R8)")
planted_fault(grant_not_returned "What outputs still hold stays charged when the lease has ended, until the grant ends")
planted_fault(segment_freed_early "A shared segment is charged once and leaves with its last holder")
planted_fault(overdue_off "A cold model gets through a steady stream once its claim is overdue (R6)")
planted_fault(segments_held_in_queue "A claim that waits behind another keeps none of the room that the other needs")
