// The checks at the door, each by name, so that a test build can switch one off and see a test turn red.
// In every other build guard() is true at compile time and nothing of this is left in the program.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace mme::loader {

/// Each has a test that must turn red without it: tests/server/http/guards.cmake (built with -DMME_PLANTED_FAULTS=ON).
inline constexpr std::array guard_names = std::to_array<std::string_view>({
    // the head of a request
    "line_ends",                // bare CR, bare LF, NUL
    "target_length",            // 414
    "header_bytes",             // 431
    "header_count",             // 431
    "method_token",             // no slash, colon or blank in it
    "version_known",            // HTTP/1.1 or HTTP/1.0
    "target_characters",        // printable ASCII, no #
    "target_form",              // a path, http://HOST/path, or * for OPTIONS
    "no_folding",               // lines that go on in the next
    "header_name",              // blanks before the colon, names that are no tokens
    "control_characters",       // in header values
    "host_exactly_one",         // none only on HTTP/1.0
    "host_is_name",             // no path, user or list
    "host_agrees_with_target",  // of an absolute target
    "no_chunked_on_1_0",        // which has no chunks
    "transfer_encoding_exact",  // "chunked" and nothing else, once
    "one_framing",              // Content-Length and Transfer-Encoding together
    "plain_content_length",     // once, digits
    // what is refused on its head
    "loopback_host",           // a page in a browser that resolves its own name to 127.0.0.1
    "expect_417",              // expectations other than 100-continue
    "content_encoding",        // a small gzip may be a large body
    "body_limit_before_read",  // 413 without the body
    // bodies and replies
    "body_limit",             // while it is read
    "chunk_framing_bound",    // tiny chunks, long extensions and trailers
    "body_in_budget",         // charged before it takes room
    "response_limit",         // 413
    "reply_in_budget",        // charged while it is sent
    "reply_header_bytes",     // what would end a header line of ours
    "request_id_characters",  // only plain ones are echoed
    // connections
    "framing_error_closes",  // nothing behind a broken head is read
    "drain_or_close",        // an unread body never becomes the next request
    "connection_limit",      // 503
    "slow_header",           // 408, and silence for one that asks nothing
    "slow_body",             // 408
    "request_deadline",      // bounds a body that drips in
    "slow_reader",           // cut
    "keep_alive_time",       // closed
    // paths and calls
    "decoded_control_characters",  // NUL, CR, LF from %00, %0d, %0a
    "decoded_utf8",                // overlong dots and slashes among others
    "dot_segments",                // "." and ".." are no names
    "admin_token",                 // 401
    "admin_mounting",              // 404 where nobody could be asked for a token
    "model_name",                  // which names exist at all
    "url_climbs",                  // ".." in the url of a load
    "url_in_root",                 // absolute urls
    // settings
    "yaml_lines",          // tabs, control characters, directives
    "yaml_repeated_key",   // the parser would keep either
    "yaml_tags",           // !name
    "yaml_anchors",        // &name
    "yaml_depth",          // 32
    "yaml_one_document",   // settings behind a second ---
    "yaml_closed_quotes",  // else the rest of the file is text
    "octal_numbers",       // 010 would be 8 or 10
});

/// Where a guard stands in the list; a name that is not in it does not compile.
class Guard {
 public:
  // Not explicit: guard("name") is how checks are written.
  consteval Guard(const char* name) : index_(find(name)) {  // NOLINT(google-explicit-constructor)
    if (index_ == guard_names.size()) throw "no such guard";
  }
  [[nodiscard]] constexpr std::size_t index() const noexcept { return index_; }
  [[nodiscard]] static constexpr std::size_t find(std::string_view name) noexcept {
    return static_cast<std::size_t>(std::ranges::find(guard_names, name) - guard_names.begin());
  }

 private:
  std::size_t index_;
};

#ifdef MME_GUARDS_SWITCHABLE
/// False for the guard that the environment variable MME_GUARD_OFF names; a name that is none ends the program.
[[nodiscard]] inline bool guard(Guard asked) noexcept {
  static const std::size_t off = [] {
    const char* name = std::getenv("MME_GUARD_OFF");
    const std::size_t index = Guard::find(name == nullptr ? "" : name);
    if (name != nullptr && index == guard_names.size()) {
      std::fprintf(stderr, "MME_GUARD_OFF names no guard: %s\n", name);
      std::abort();
    }
    return index;
  }();
  return asked.index() != off;
}
#else
[[nodiscard]] constexpr bool guard(Guard) noexcept {
  return true;
}
#endif

}  // namespace mme::loader
