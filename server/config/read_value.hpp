// From what somebody wrote to a typed value, each with its limits; one function a type of setting.
// Strict: nothing is rounded, guessed or taken for something else.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "loader/error.hpp"
#include "server/config/settings.hpp"
#include "server/config/value.hpp"

namespace mme::server {

/// All fail with invalid_request and a reason without the key's name.
[[nodiscard]] loader::Result<std::uint64_t> read_count(const Value& value, std::uint64_t least, std::uint64_t most);
[[nodiscard]] loader::Result<std::uint64_t> read_size(const Value& value, std::uint64_t most);
/// Whole milliseconds.
[[nodiscard]] loader::Result<std::chrono::milliseconds> read_duration(const Value& value,
                                                                      std::chrono::milliseconds least);
/// `true` or `false`.
[[nodiscard]] loader::Result<bool> read_truth(const Value& value);
/// Printable text, not empty; unquoted it must not look like a number, a truth value or "nothing".
[[nodiscard]] loader::Result<std::string> read_text(const Value& value);
/// Different model names: a list, or one text with commas between. Empty text is no name.
[[nodiscard]] loader::Result<std::vector<std::string>> read_names(const Value& value);

/// 1 to 18 digits, with or without quotes.
[[nodiscard]] loader::Result<std::string> read_version(const Value& value);
/// A list of sections with `name`, `datatype` and `shape`; names are different.
[[nodiscard]] loader::Result<std::vector<TensorOptions>> read_tensor_options(const Value& value);

/// True for exactly this bare word, such as `auto` or `off`.
[[nodiscard]] bool is_word(const Value& value, std::string_view word);

}  // namespace mme::server
