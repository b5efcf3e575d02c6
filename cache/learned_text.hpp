// The learned table as text, for a file, and back. Pure: opens nothing.
// Strict: text that is not whole, to the last byte, is nothing at all.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "cache/learned_facts.hpp"

namespace mme::cache {

/// Longer text is neither written nor read.
inline constexpr std::size_t longest_learned_text = std::size_t{16} << 20;

/// One line each, the most recently used first:
///
///     mme learned 1
///     a DIGEST OWN SEGMENTS ALONE JOINED KEPT [BUCKET:PEAK]...
///     n NAME DIGEST:BYTES [DIGEST:BYTES]...
///     end CRC-32 OF ALL BEFORE
///
/// Numbers are decimal bytes. What would make it longer than allowed is left out, the least recently used first.
[[nodiscard]] std::string to_text(const LearnedTable& table);

/// nullopt for anything that to_text() could not have written. Takes memory of the order of the text.
[[nodiscard]] std::optional<LearnedTable> learned_from_text(std::string_view text);

}  // namespace mme::cache
