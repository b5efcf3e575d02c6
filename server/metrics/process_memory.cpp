#include "server/metrics/process_memory.hpp"

#include <charconv>
#include <fstream>
#include <sstream>

namespace mme::server {
namespace {

/// The value of "Name:   123 kB", in bytes; 0 when the line is not there.
std::size_t field(std::string_view status, std::string_view name) {
  std::size_t at = status.find(name);
  if (at == std::string_view::npos) return 0;
  at = status.find_first_of("0123456789", at + name.size());
  if (at == std::string_view::npos) return 0;
  std::size_t kilobytes = 0;
  std::from_chars(status.data() + at, status.data() + status.size(), kilobytes);
  return kilobytes * 1024;
}

}  // namespace

ProcessMemory parse_process_memory(std::string_view status) {
  return {field(status, "VmRSS:"), field(status, "RssAnon:")};
}

ProcessMemory process_memory() {
  const std::ifstream file("/proc/self/status");
  std::ostringstream text;
  text << file.rdbuf();
  return parse_process_memory(text.str());
}

}  // namespace mme::server
