// Percent-decoding, once, of path segments and queries.
// Does not resolve "." and "..", does not join or normalise: a path that needs that is an unknown route.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/message.hpp"

namespace mme::server {

/// Decodes %XX once. invalid_request for a bad escape, and for a result that holds a control character (NUL, CR and LF
/// among them) or is not UTF-8: what comes out may be quoted in an error or a log line.
[[nodiscard]] Result<std::string> decode_segment(std::string_view encoded);

/// "a=1&b=x+y" into decoded pairs, in order. Errors as decode_segment.
[[nodiscard]] Result<Headers> decode_query(std::string_view query);

/// Segments of a path that begins with '/', still encoded. "/" has one empty segment, "/a/" has "a" and "".
[[nodiscard]] std::vector<std::string_view> split_path(std::string_view path);

}  // namespace mme::server
