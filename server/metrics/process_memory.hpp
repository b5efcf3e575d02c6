// What the kernel says this process holds.
#pragma once

#include <cstddef>
#include <string_view>

namespace mme::server {

struct ProcessMemory {
  std::size_t rss_bytes = 0;
  std::size_t anon_bytes = 0;  ///< RssAnon: what is lost when a container's limit is near
};

/// Reads /proc/self/status: some 20 us. Zeros where it cannot be read.
[[nodiscard]] ProcessMemory process_memory();

/// The same from the text of a status file.
[[nodiscard]] ProcessMemory parse_process_memory(std::string_view status);

}  // namespace mme::server
