// The access line as JSON.
// Only formats; where a line goes is the sink's business.
#include "server/http/access.hpp"

#include <cmath>
#include <string_view>

#include "server/codecs/json_writer.hpp"

namespace mme::server {
namespace {

void text(std::string& out, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  append_key(out, key);
  append_string(out, value);
}

void whole(std::string& out, std::string_view key, std::uint64_t value) {
  append_key(out, key);
  append_number(out, value);
}

void real(std::string& out, std::string_view key, double value) {
  append_key(out, key);
  append_number(out, std::isfinite(value) ? value : 0.0);
}

/// Only when it says something: most requests never wait for a load.
void optional_real(std::string& out, std::string_view key, double value) {
  if (value != 0) real(out, key, value);
}

}  // namespace

void append_access(std::string& out, const AccessLine& access) {
  text(out, "method", access.method);
  text(out, "path", access.path);
  whole(out, "status", access.status);
  text(out, "id", access.request_id);
  text(out, "dialect", access.record.dialect);
  text(out, "model", access.record.model);
  text(out, "reason", access.record.reason);
  text(out, "cache", access.record.cache);
  text(out, "fault", access.record.fault);
  optional_real(out, "queue_ms", access.record.queue_ms);
  optional_real(out, "load_ms", access.record.load_ms);
  optional_real(out, "run_ms", access.record.run_ms);
  real(out, "seconds", access.seconds);
  whole(out, "bytes_in", access.bytes_in);
  whole(out, "bytes_out", access.bytes_out);
}

}  // namespace mme::server
