// Turns what libtorch throws, which is pages of frames, into one line for a client.
// Pure text; decides no error code.
#pragma once

#include <string>
#include <string_view>

namespace mme::loader {

/// The first line that says what went wrong: the raised message when an interpreter's traceback is in `text`, else the
/// first line with content. Paths and addresses of the machine are taken out, control characters become spaces, and
/// the line is cut at about 300 bytes. Never empty.
[[nodiscard]] std::string one_line(std::string_view text);

}  // namespace mme::loader
