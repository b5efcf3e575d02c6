// What the fuzz targets hold: a property that does not hold ends the program, with its name on stderr.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "loader/error.hpp"

namespace mme::fuzz {

inline void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// What is told to a client or an operator: one short line.
inline void demand_plain(std::string_view message) {
  demand(!message.empty() && message.size() < 600, "a message is short");
  for (const char c : message) demand(c >= ' ' && c <= '~', "a message is one printable line");
}

inline void demand_plain(const loader::Error& error) {
  demand_plain(std::string_view(error.message));
}

}  // namespace mme::fuzz
