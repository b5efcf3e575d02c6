# For each guard of loader/guards.hpp: the test that must turn red when it is switched off. One more build of what is
# guarded, in which MME_GUARD_OFF chooses the guard at run time, linked with the tests' own objects.
# `guard(NAME TEST)` makes the ctest case guard_NAME.
function(switchable name folder library)
  get_target_property(sources ${library} SOURCES)
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
  add_library(${name} OBJECT ${sources})
  target_compile_definitions(${name} PRIVATE MME_GUARDS_SWITCHABLE=1)
  target_link_libraries(${name} PRIVATE $<TARGET_PROPERTY:${library},LINK_LIBRARIES>)
endfunction()
switchable(switchable_http server/http mme_http)
switchable(switchable_repository loader/repository mme_repository)
switchable(switchable_yaml loader/repository mme_strict_yaml)
switchable(switchable_config server/config mme_config)

set(TESTS ${PROJECT_SOURCE_DIR}/tests)
add_executable(test_guards
  ${TESTS}/loader/repository/names_test.cpp ${TESTS}/loader/repository/catalog_url_test.cpp
  ${TESTS}/server/config/strict_yaml_test.cpp ${TESTS}/server/config/units_test.cpp
  $<TARGET_OBJECTS:http_fixture> $<TARGET_OBJECTS:http_rules_tests> $<TARGET_OBJECTS:http_session_tests>
  $<TARGET_OBJECTS:http_attacks_tests> $<TARGET_OBJECTS:switchable_http> $<TARGET_OBJECTS:switchable_repository>
  $<TARGET_OBJECTS:switchable_yaml> $<TARGET_OBJECTS:switchable_config>)
target_link_libraries(test_guards PRIVATE mme_catch mme_asio mme_codecs mme_loader yaml-cpp)

set(TRIED)
function(guard name test)
  set(TRIED ${TRIED} ${name} PARENT_SCOPE)
  mme_turns_red(guard_${name} "${test}" $<TARGET_FILE:test_guards>
    ${CMAKE_COMMAND} -E env MME_GUARD_OFF=${name} MME_TEST_PATIENCE_S=5 $<TARGET_FILE:test_guards>)
endfunction()

set(ATTACKS "no attack gets more answers than requests, or an answer to a hidden request")
guard(line_ends "bytes that cannot become a head are refused before the head is whole")
guard(target_length "bytes that cannot become a head are refused before the head is whole")
guard(header_bytes "bytes that cannot become a head are refused before the head is whole")
guard(header_count "${ATTACKS}")
guard(method_token "${ATTACKS}")
guard(version_known "${ATTACKS}")
guard(target_characters "${ATTACKS}")
guard(target_form "${ATTACKS}")
guard(no_folding "a header line that goes on in the next is refused as such, not only for its missing name")
guard(header_name "${ATTACKS}")
guard(control_characters "${ATTACKS}")
guard(host_exactly_one "${ATTACKS}")
guard(host_is_name "${ATTACKS}")
guard(host_agrees_with_target "an absolute target names the Host again")
guard(no_chunked_on_1_0 "${ATTACKS}")
guard(transfer_encoding_exact "${ATTACKS}")
guard(one_framing "${ATTACKS}")
guard(plain_content_length "${ATTACKS}")

guard(loopback_host "a listener on all addresses takes any Host, a loopback one only its own")
guard(expect_417 "expectations count on HTTP/1.1 only")
guard(content_encoding "well-framed requests that are refused on their head")
guard(body_limit_before_read "well-framed requests that are refused on their head")

guard(body_limit "the limit is of the body, to the byte")
guard(chunk_framing_bound "framing that outweighs the body is refused, large chunks are not")
guard(body_in_budget "a body is charged before it takes room, and the charge is what it takes")
guard(response_limit "a reply over the limit becomes a declared refusal")
guard(reply_in_budget "bodies above the free size are charged while they are held, and refused when there is no room")
guard(reply_header_bytes "no header value can end its line")
guard(request_id_characters "a request id of the client is echoed, any other is replaced")

guard(framing_error_closes "behind a broken head nothing is answered any more")
guard(drain_or_close "${ATTACKS}")
guard(connection_limit "connections over the limit get 503 and those before them live")
guard(slow_header "a slow header is answered 408 and cut")
guard(slow_body "a slow body is answered 408 and cut")
guard(request_deadline "a body that drips in is cut by the deadline of its request")
guard(slow_reader "a client that does not read its answer is cut")
guard(keep_alive_time "an idle connection is closed after the keep-alive time")

guard(decoded_control_characters "segments that cannot be decoded safely are refused")
guard(decoded_utf8 "segments that cannot be decoded safely are refused")
guard(dot_segments "a path that is nobody's gets a 404 in the shape of the dialect that owns its beginning")
guard(admin_token "admin routes with a token let in those who have it")
guard(admin_mounting "admin routes that are not mounted do not exist")
guard(model_name "a name that could leave the repository or hide in it is none")
guard(url_climbs "a url that leads outside or looks like no path is refused")
guard(url_in_root "a url that leads outside or looks like no path is refused")

guard(yaml_lines "tabs and control characters are refused outside comments")
guard(yaml_repeated_key "every construct that hides or repeats something is refused with its line")
guard(yaml_tags "every construct that hides or repeats something is refused with its line")
guard(yaml_anchors "every construct that hides or repeats something is refused with its line")
guard(yaml_depth "files that are too large or too deep are refused without reading on")
guard(yaml_one_document "every construct that hides or repeats something is refused with its line")
guard(yaml_closed_quotes "a quote that is never closed is refused, not read to the end of the file")
guard(octal_numbers "numbers are plain digits")

# None is forgotten, and a name that is none is no guard that holds.
file(STRINGS ${PROJECT_SOURCE_DIR}/loader/guards.hpp lines REGEX "^    \"[a-z0-9_]+\",")
list(TRANSFORM lines REPLACE "^    \"([a-z0-9_]+)\".*" "\\1")
if(NOT lines STREQUAL TRIED)
  message(FATAL_ERROR "loader/guards.hpp lists ${lines}, guards.cmake tries ${TRIED}")
endif()
add_test(NAME guard_unknown
         COMMAND sh -c "MME_GUARD_OFF=nonsense $<TARGET_FILE:test_guards> [names] 2>&1 | grep 'names no guard: nonsense'")
set_tests_properties(guard_unknown PROPERTIES TIMEOUT 60 LABELS fault)
