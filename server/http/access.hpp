// The access line: one record for each request, however it ended.
// Only builds and formats it; where it goes (log, metrics), and when and how grave it is, is the sink's business.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/http/message.hpp"

namespace mme::server {

/// Status of a request whose client left before the answer; never sent.
inline constexpr unsigned kClientGone = 499;

struct AccessLine {
  std::string method;  ///< empty when the head was not understood
  std::string path;    ///< raw, percent-encoded, without the query: the query may hold what logs must not
  std::string request_id;
  unsigned status = 0;
  std::uint64_t bytes_in = 0;   ///< of the body
  std::uint64_t bytes_out = 0;  ///< of the body, as far as it was sent
  double seconds = 0;           ///< from the last byte of the headers to the last byte of the answer
  AccessRecord record;
};

/// Called once a request, on any io thread, several at once; must not block or throw.
using AccessSink = std::function<void(const AccessLine&)>;

/// Appends the members of a JSON object, with a comma before the first unless `out` ends in an opening bracket; no line
/// end. Bytes that are not UTF-8 become U+FFFD.
void append_access(std::string& out, const AccessLine& line);

}  // namespace mme::server
