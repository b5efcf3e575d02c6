#include "server/config/read_value.hpp"

#include <algorithm>
#include <array>
#include <limits>
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
  if (!value.sections.empty()) return bad("takes a list of plain values");
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

Result<std::string> read_version(const Value& value) {
  const auto text = scalar(value);
  if (!text) return text.error();
  if (!loader::is_valid_version(text->text)) return bad("must be a version: 1 to 18 digits");
  return text->text;
}

namespace {

constexpr std::size_t kMostTensors = 4096;
constexpr std::size_t kMostDimensions = 64;
constexpr std::size_t kLongestTensorName = 256;

Result<loader::Shape> read_shape(const Value& value) {
  if (!value.is_list || !value.sections.empty() || value.items.size() > kMostDimensions) {
    return bad("shape must be a list of at most " + std::to_string(kMostDimensions) + " numbers");
  }
  loader::Shape shape;
  for (const auto& item : value.items) {
    const bool any = item.text == "-1" && item.style != Style::quoted;
    const auto number = any ? Result<std::uint64_t>(0) : parse_number(item.text);
    if (!number || item.style == Style::quoted || *number > std::numeric_limits<std::int32_t>::max()) {
      return bad("shape holds numbers from 0 to 2147483647, and -1 for any");
    }
    shape.push_back(any ? -1 : static_cast<std::int64_t>(*number));
  }
  return shape;
}

/// One field of one tensor; "" when it was read.
std::string read_field(const Field& field, TensorOptions& tensor) {
  if (field.name == "name") {
    const auto name = read_text(field.value);
    if (!name) return "name " + name.error().message;
    if (name->size() > kLongestTensorName) return "name must be at most 256 bytes";
    tensor.name = *name;
    return "";
  }
  if (field.name == "datatype") {
    const auto text = scalar(field.value);
    tensor.datatype = text ? loader::parse_data_type(text->text) : std::nullopt;
    return tensor.datatype ? "" : "datatype must be one of BOOL, UINT8 .. INT64, FP16, BF16, FP32, FP64, BYTES";
  }
  if (field.name == "shape") {
    auto shape = read_shape(field.value);
    if (!shape) return shape.error().message;
    tensor.shape = std::move(*shape);
    return "";
  }
  return "'" + field.name + "' is no setting of a tensor";
}

}  // namespace

Result<std::vector<TensorOptions>> read_tensor_options(const Value& value) {
  if (!value.is_list || !value.items.empty()) return bad("takes a list of sections with name, datatype and shape");
  if (value.sections.size() > kMostTensors) return bad("has more than 4096 entries");
  std::vector<TensorOptions> tensors;
  for (const auto& section : value.sections) {
    const std::string where = "entry " + std::to_string(tensors.size() + 1) + ": ";
    TensorOptions tensor;
    for (const auto& field : section) {
      if (const std::string problem = read_field(field, tensor); !problem.empty()) return bad(where + problem);
    }
    if (tensor.name.empty()) return bad(where + "has no name");
    for (const auto& other : tensors) {
      if (other.name == tensor.name) return bad(where + "'" + tensor.name + "' is listed twice");
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

bool is_word(const Value& value, std::string_view word) {
  return !value.is_list && value.items.front().style != Style::quoted && value.items.front().text == word;
}

}  // namespace mme::server
