#include "server/codecs/json_reader.hpp"

#include <algorithm>
#include <charconv>

namespace mme::server {
namespace {

using loader::ErrorCode;
using loader::fail;
using loader::Result;
using simdjson::dom::element_type;

std::string_view explain(simdjson::error_code code) {
  switch (code) {
    case simdjson::DEPTH_ERROR: return "the JSON nests too deeply";
    case simdjson::UTF8_ERROR: return "the JSON is not valid UTF-8";
    case simdjson::NUMBER_ERROR: return "the JSON has a number that is malformed or out of range";
    case simdjson::EMPTY: return "the body is empty where JSON is expected";
    case simdjson::STRING_ERROR:
    case simdjson::UNESCAPED_CHARS: return "the JSON has a malformed string";
    case simdjson::UNCLOSED_STRING: return "the JSON ends inside a string";
    default: return "the body is not valid JSON";
  }
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool fits_64_bits(std::string_view literal) {
  std::int64_t small = 0;
  std::uint64_t large = 0;
  const char* const end = literal.data() + literal.size();
  return std::from_chars(literal.data(), end, small).ec == std::errc() ||
         std::from_chars(literal.data(), end, large).ec == std::errc();
}

/// simdjson refuses integers beyond 64 bits, yet JavaScript writes 1e20 as 100000000000000000000. Marks such literals
/// as reals by appending "e0"; a tensor of integers still refuses them. nullopt when there are none.
std::optional<std::string> mark_wide_integers(std::string_view text) {
  std::string marked;
  std::size_t copied = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (c != '-' && !is_digit(c)) continue;
    const std::size_t begin = i++;
    while (i < text.size() && is_digit(text[i])) ++i;
    const bool real = i < text.size() && (text[i] == '.' || text[i] == 'e' || text[i] == 'E');
    if (real) {
      while (i < text.size() && (is_digit(text[i]) || std::string_view(".eE+-").find(text[i]) != text.npos)) ++i;
    } else if (i - begin >= 19 && !fits_64_bits(text.substr(begin, i - begin))) {
      marked.append(text.substr(copied, i - copied)).append("e0");
      copied = i;
    }
    --i;
  }
  if (copied == 0) return std::nullopt;
  marked.append(text.substr(copied));
  return marked;
}

}  // namespace

Result<JsonDocument> JsonDocument::parse(std::string_view text) {
  JsonDocument document;
  document.parser_ = std::make_unique<simdjson::dom::parser>();
  simdjson::dom::parser& parser = *document.parser_;
  // One level more than we allow, because simdjson counts the document itself as one.
  if (parser.allocate(std::max(text.size(), std::size_t{1024}), kJsonDepth + 1) != simdjson::SUCCESS) {
    return fail(ErrorCode::body_too_large, "the JSON is too large to read");
  }
  simdjson::error_code code = parser.parse(text.data(), text.size()).get(document.root_);
  if (code == simdjson::NUMBER_ERROR) {
    if (const auto marked = mark_wide_integers(text)) code = parser.parse(*marked).get(document.root_);
  }
  if (code != simdjson::SUCCESS) return fail(ErrorCode::invalid_request, std::string(explain(code)));
  return document;
}

std::size_t json_working_bytes(std::string_view text) noexcept {
  // A value follows each comma, colon and opening bracket, at most; each has an index, up to two words on the parser's
  // tape, and an element of some tensor.
  constexpr std::size_t kValue = 4 + 16 + 16;
  constexpr std::size_t kBracket = 4 + 8;
  constexpr std::size_t kString = 8 + sizeof(std::string) + 16;  // besides its characters: parsed, kept, on the heap
  constexpr std::size_t kField = 64;                             // of an object while it is looked through
  std::size_t bytes = text.size() + kValue;                      // the parser copies the text to have room behind it
  std::size_t digits = 0;
  bool in_string = false;
  bool wide = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      bytes += 2;  // as parsed and as kept
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    digits = is_digit(c) ? digits + 1 : 0;
    wide = wide || digits >= 19;
    switch (c) {
      case '"':
        bytes += kString;
        in_string = true;
        break;
      case ':': bytes += kField + kValue; break;
      case ',':
      case '[':
      case '{': bytes += kValue; break;
      case ']':
      case '}': bytes += kBracket; break;
      default: break;
    }
  }
  return wide ? bytes + 3 * text.size() : bytes;  // integers of that length may have to be marked in a copy
}

Result<JsonObject> JsonObject::read(JsonValue value, std::string where) {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return fail(ErrorCode::invalid_request, where + " must be a JSON object, not " + std::string(kind_of(value)));
  }
  JsonObject result;
  result.where_ = std::move(where);
  for (const auto [key, field] : object) result.fields_.push_back({key, field});
  std::ranges::sort(result.fields_, {}, &Field::key);
  const auto twice = std::ranges::adjacent_find(result.fields_, {}, &Field::key);
  if (twice != result.fields_.end()) {
    return fail(ErrorCode::invalid_request, result.where_ + " has the field " + shown(twice->key) + " twice");
  }
  return result;
}

std::optional<JsonValue> JsonObject::find(std::string_view key) const {
  const auto found = std::ranges::lower_bound(fields_, key, {}, &Field::key);
  if (found == fields_.end() || found->key != key) return std::nullopt;
  return found->value;
}

Result<JsonValue> JsonObject::require(std::string_view key) const {
  if (const auto value = find(key)) return *value;
  return fail(ErrorCode::invalid_request, where_ + " has no field '" + std::string(key) + "'");
}

Result<std::string_view> JsonObject::string(std::string_view key) const {
  const auto text = optional_string(key);
  if (text.has_error()) return text.error();
  if (!*text) return fail(ErrorCode::invalid_request, where_ + " has no field '" + std::string(key) + "'");
  return **text;
}

Result<std::optional<std::string_view>> JsonObject::optional_string(std::string_view key) const {
  const auto value = find(key);
  if (!value) return std::optional<std::string_view>();
  std::string_view text;
  if (value->get(text) != simdjson::SUCCESS) {
    return fail(ErrorCode::invalid_request,
                "'" + std::string(key) + "' of " + where_ + " must be a string, not " + std::string(kind_of(*value)));
  }
  return std::optional(text);
}

Result<std::optional<bool>> JsonObject::optional_boolean(std::string_view key) const {
  const auto value = find(key);
  if (!value) return std::optional<bool>();
  bool flag = false;
  if (value->get(flag) != simdjson::SUCCESS) {
    return fail(ErrorCode::invalid_request, "'" + std::string(key) + "' of " + where_ + " must be true or false, not " +
                                                std::string(kind_of(*value)));
  }
  return std::optional(flag);
}

std::string_view kind_of(JsonValue value) noexcept {
  switch (value.type()) {
    case element_type::ARRAY: return "an array";
    case element_type::OBJECT: return "an object";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE: return "a number";
    case element_type::STRING: return "a string";
    case element_type::BOOL: return "a boolean";
    case element_type::NULL_VALUE: return "null";
  }
  return "something else";
}

std::string shown(std::string_view text) {
  constexpr std::size_t kShown = 64;
  std::string result = "'";
  for (const char c : text.substr(0, kShown)) result += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > kShown) result += "...";
  return result + "'";
}

}  // namespace mme::server
