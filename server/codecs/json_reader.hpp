// Reads one JSON document, whole and strictly, and walks objects so that every field is looked at once.
// Knows no protocol and no tensor: tensor_json and the dialects' wire files do.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/error.hpp"

namespace mme::server {

using JsonValue = simdjson::dom::element;

/// Containers nest at most this deep; also what bounds every recursive walk over a document.
inline constexpr std::size_t kJsonDepth = 32;

/// A parsed document. Refuses, as invalid_request with one line that never repeats the client's bytes: malformed or
/// truncated text, bytes after the value, invalid UTF-8, comments, NaN and Infinity, numbers beyond double, depth over
/// kJsonDepth. Integers beyond 64 bits read as reals. The values stay valid while the document lives, also when it is
/// moved. Takes about 14 times the text's size of address space while it lives; json_working_bytes() of that is used.
class JsonDocument {
 public:
  static loader::Result<JsonDocument> parse(std::string_view text);

  [[nodiscard]] JsonValue root() const noexcept { return root_; }

 private:
  std::unique_ptr<simdjson::dom::parser> parser_;
  JsonValue root_;
};

/// At most so many bytes are touched while `text` is parsed and its arrays are made into tensors. From one pass over
/// the text: 5 times the text for floats of seven digits, 21 times for arrays of single digits.
[[nodiscard]] std::size_t json_working_bytes(std::string_view text) noexcept;

/// The fields of one object. Refuses keys given twice, wherever it is used.
class JsonObject {
 public:
  /// `where`: what the object is, for messages ("the request", "input 'x'").
  static loader::Result<JsonObject> read(JsonValue value, std::string where);

  /// nullopt when there is no such field; a null counts as a value.
  [[nodiscard]] std::optional<JsonValue> find(std::string_view key) const;

  /// Field of a given kind; the error names field and object. The optional forms return nullopt when it is absent.
  [[nodiscard]] loader::Result<JsonValue> require(std::string_view key) const;
  [[nodiscard]] loader::Result<std::string_view> string(std::string_view key) const;
  [[nodiscard]] loader::Result<std::optional<std::string_view>> optional_string(std::string_view key) const;
  [[nodiscard]] loader::Result<std::optional<bool>> optional_boolean(std::string_view key) const;

  struct Field {
    std::string_view key;
    JsonValue value;
  };
  /// Sorted by key.
  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return fields_; }
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  /// A better name for messages, once the object has told its own.
  void rename(std::string where) { where_ = std::move(where); }

 private:
  std::vector<Field> fields_;
  std::string where_;
};

/// What a value is, for messages: "an array", "a string", ...
[[nodiscard]] std::string_view kind_of(JsonValue value) noexcept;

/// A client's text for use in a message: in single quotes, printable ASCII only, at most 64 bytes of it.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace mme::server
