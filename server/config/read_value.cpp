#include "server/config/read_value.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "loader/repository/names.hpp"
#include "server/config/duration.hpp"
#include "server/config/number.hpp"
#include "server/config/size.hpp"

namespace mme::server {
namespace {

using loader::ErrorCode;
using loader::Result;

loader::Error bad(std::string why) {
  return loader::fail(ErrorCode::invalid_request, std::move(why));
}

Result<Text> scalar(const Value& value) {
  if (value.is_list) return bad("takes one value, not a list");
  return value.items.front();
}

/// For types that have no quotes around them.
Result<std::string> bare(const Value& value) {
  const auto text = scalar(value);
  if (!text) return text.error();
  if (text->style == Style::quoted) return bad("takes a bare value, without quotes");
  return text->text;
}

bool looks_like_something_else(std::string_view text) {
  static constexpr std::array<std::string_view, 12> kWords{"true", "True", "TRUE", "false", "False", "FALSE",
                                                           "yes",  "no",   "on",   "off",   "null",  "~"};
  if (std::find(kWords.begin(), kWords.end(), text) != kWords.end()) return true;
  const bool is_like_a_number = text.find_first_not_of("0123456789.+-_") == std::string_view::npos;
  return is_like_a_number && std::count(text.begin(), text.end(), '.') <= 1 && text != ".";  // addresses have three
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<std::uint64_t> read_count(const Value& value, std::uint64_t least, std::uint64_t most) {
  const auto text = bare(value);
  if (!text) return text.error();
  const auto number = parse_number(*text);
  if (!number) return number.error();
  if (*number < least || *number > most) {
    return bad("must be between " + std::to_string(least) + " and " + std::to_string(most));
  }
  return *number;
}

Result<std::uint64_t> read_size(const Value& value, std::uint64_t most) {
  const auto text = scalar(value);
  if (!text) return text.error();
  const auto size = parse_size(text->text);
  if (size && *size > most) return bad("must be at most " + size_text(most));
  return size;
}

Result<std::chrono::milliseconds> read_duration(const Value& value, std::chrono::milliseconds least) {
  const auto text = scalar(value);
  if (!text) return text.error();
  const auto duration = parse_duration(text->text);
  if (!duration) return duration.error();
  const auto rounded = std::chrono::duration_cast<std::chrono::milliseconds>(*duration);
  if (rounded != *duration) return bad("must be whole milliseconds");
  if (rounded < least) return bad("must be at least " + duration_text(least));
  return rounded;
}

Result<bool> read_truth(const Value& value) {
  const auto text = bare(value);
  if (!text) return text.error();
  if (*text == "true") return true;
  if (*text == "false") return false;
  return bad("must be true or false");
}

Result<std::string> read_text(const Value& value) {
  const auto text = scalar(value);
  if (!text) return text.error();
  if (text->text.empty()) return bad("must not be empty");
  if (std::any_of(text->text.begin(), text->text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    return bad("must not hold control characters");
  }
  if (text->style == Style::plain && looks_like_something_else(text->text))
    return bad("takes text; put it in quotes if it is meant");
  return text->text;
}

Result<std::vector<std::string>> read_names(const Value& value) {
  std::vector<std::string> names;
  for (const auto& item : value.items) {
    if (value.is_list) {
      names.push_back(item.text);
    } else if (!item.text.empty()) {
      for (const auto part : split_at_commas(item.text)) names.emplace_back(part);
    }
  }
  for (const auto& name : names) {
    if (!loader::is_valid_model_name(name)) return bad("'" + name + "' is not a model name");
  }
  auto sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return bad("'" + *twice + "' is listed twice");
  return names;
}

bool is_word(const Value& value, std::string_view word) {
  return !value.is_list && value.items.front().style != Style::quoted && value.items.front().text == word;
}

}  // namespace mme::server
