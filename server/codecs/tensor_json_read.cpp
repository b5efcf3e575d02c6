// Reading half of tensor_json: JSON numbers, booleans and strings into dense tensors.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "server/codecs/half.hpp"
#include "server/codecs/tensor_json.hpp"

namespace mme::server {
namespace {

using loader::DataType;
using loader::ErrorCode;
using loader::fail;
using loader::Result;
using loader::Shape;
using loader::Tensor;
using simdjson::dom::element_type;

/// What is wrong with one element; empty when nothing is.
using Problem = std::string_view;

constexpr Problem kOutOfRange = "is out of range";
constexpr Problem kNotANumber = "is not a number";

template <class T>
Problem read_integer(JsonValue value, T& out) {
  if (value.is_int64()) {
    const std::int64_t number = value.get_int64().value_unsafe();
    if (!std::in_range<T>(number)) return kOutOfRange;
    out = static_cast<T>(number);
    return {};
  }
  if (value.is_uint64()) {
    const std::uint64_t number = value.get_uint64().value_unsafe();
    if (!std::in_range<T>(number)) return kOutOfRange;
    out = static_cast<T>(number);
    return {};
  }
  return value.is_double() ? "is not an integer of 64 bits or less" : kNotANumber;
}

std::optional<double> named_real(std::string_view name) {
  if (name == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (name == "Infinity") return std::numeric_limits<double>::infinity();
  if (name == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

Problem read_double(JsonValue value, double& out) {
  switch (value.type()) {
    case element_type::DOUBLE: out = value.get_double().value_unsafe(); return {};
    case element_type::INT64: out = static_cast<double>(value.get_int64().value_unsafe()); return {};
    case element_type::UINT64: out = static_cast<double>(value.get_uint64().value_unsafe()); return {};
    case element_type::STRING: {
      const auto named = named_real(value.get_string().value_unsafe());
      if (!named) return kNotANumber;
      out = *named;
      return {};
    }
    default: return kNotANumber;
  }
}

Problem read_float(JsonValue value, float& out) {
  // An integer goes to float directly: by way of double it could be rounded twice.
  if (value.type() == element_type::INT64) {
    out = static_cast<float>(value.get_int64().value_unsafe());
    return {};
  }
  double wide = 0;
  if (const Problem problem = read_double(value, wide); !problem.empty()) return problem;
  // From here on up a finite value rounds to infinity.
  constexpr double kTooLarge = 0x1.ffffffp127;
  if (std::isfinite(wide) && std::fabs(wide) >= kTooLarge) return kOutOfRange;
  out = static_cast<float>(wide);
  return {};
}

template <std::optional<std::uint16_t> (*Narrow)(double) noexcept>
Problem read_short_float(JsonValue value, std::uint16_t& out) {
  double wide = 0;
  if (const Problem problem = read_double(value, wide); !problem.empty()) return problem;
  const auto bits = Narrow(wide);
  if (!bits) return kOutOfRange;
  out = *bits;
  return {};
}

Problem read_boolean(JsonValue value, std::uint8_t& out) {
  bool flag = false;
  if (value.get(flag) != simdjson::SUCCESS) return "is not true or false";
  out = flag ? 1 : 0;
  return {};
}

Problem read_string(JsonValue value, std::string& out) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return "is not a string";
  out = text;
  return {};
}

/// A number as FP32, or a boolean as 1 or 0; what a Python handler makes of a JSON array.
Problem read_loose_float(JsonValue value, float& out) {
  bool flag = false;
  if (value.get(flag) == simdjson::SUCCESS) {
    out = flag ? 1.F : 0.F;
    return {};
  }
  return value.is_string() ? kNotANumber : read_float(value, out);
}

/// array.size() stops counting here.
constexpr std::size_t kSaturated = 0xFFFFFF;

std::size_t size_of(simdjson::dom::array array) {
  std::size_t size = array.size();
  if (size < kSaturated) return size;
  size = 0;
  for ([[maybe_unused]] const JsonValue value : array) ++size;
  return size;
}

/// Where the elements are: `value` nested `depth` arrays deep.
struct Layout {
  JsonValue value;
  std::size_t depth = 1;
  std::size_t count = 0;
};

/// True when arrays are nested exactly as `shape` says. Looks at arrays, not at elements.
bool nests_as(JsonValue value, std::span<const std::int64_t> shape) {
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) return false;
  if (!std::cmp_equal(size_of(array), shape.front())) return false;
  if (shape.size() == 1) return true;
  for (const JsonValue row : array) {
    if (!nests_as(row, shape.subspan(1))) return false;
  }
  return true;
}

Result<Layout> lay_out(JsonValue data, const Shape& shape, std::string_view what) {
  const auto count = loader::element_count(shape);
  if (!count || shape.size() > kMostDimensions) {
    return fail(ErrorCode::invalid_tensor, std::string(what) + " has a shape that is negative or too large");
  }
  simdjson::dom::array array;
  if (data.get(array) != simdjson::SUCCESS) {
    return fail(ErrorCode::invalid_tensor,
                "the data of " + std::string(what) + " must be an array, not " + std::string(kind_of(data)));
  }
  const bool nested = array.begin() != array.end() && (*array.begin()).is_array();
  if (nested) {
    if (shape.empty() || !nests_as(data, shape)) {
      return fail(ErrorCode::invalid_tensor, "the data of " + std::string(what) + " is not nested as its shape " +
                                                 loader::to_string(shape) + " says");
    }
    return Layout{data, shape.size(), static_cast<std::size_t>(*count)};
  }
  const std::size_t given = size_of(array);
  // An empty outer array is also how nested data of a shape such as [0,64] looks.
  if (!std::cmp_equal(given, *count)) {
    return fail(ErrorCode::invalid_tensor, std::string(what) + " has " + std::to_string(given) +
                                               " elements where its shape " + loader::to_string(shape) + " needs " +
                                               std::to_string(*count));
  }
  return Layout{data, 1, given};
}

/// Calls `visit` for every element in order, until it names a problem. Arrays must nest to `depth`.
template <class Visit>
Problem each_element(JsonValue value, std::size_t depth, Visit& visit) {
  if (depth == 0) return visit(value);
  const simdjson::dom::array array = value.get_array().value_unsafe();
  for (const JsonValue item : array) {
    if (const Problem problem = each_element(item, depth - 1, visit); !problem.empty()) return problem;
  }
  return {};
}

template <class T>
Result<std::vector<T>> gather(const Layout& layout, Problem (*read)(JsonValue, T&), std::string_view what,
                              DataType type) {
  std::vector<T> values;
  values.reserve(layout.count);
  auto visit = [&](JsonValue element) {
    T value{};
    const Problem problem = read(element, value);
    if (problem.empty()) values.push_back(std::move(value));
    return problem;
  };
  const Problem problem = each_element(layout.value, layout.depth, visit);
  if (problem.empty()) return values;
  return fail(ErrorCode::invalid_tensor, "element " + std::to_string(values.size()) + " of " + std::string(what) + " " +
                                             std::string(problem) + ", for " + std::string(loader::to_string(type)));
}

template <class T>
Result<Tensor> fill(const Layout& layout, DataType type, Shape shape, Problem (*read)(JsonValue, T&),
                    std::string_view what) {
  auto values = gather(layout, read, what, type);
  if (values.has_error()) return values.error();
  return Tensor::take<T>(type, std::move(shape), std::move(*values));
}

Result<Tensor> fill_strings(const Layout& layout, Shape shape, std::string_view what) {
  auto values = gather(layout, &read_string, what, DataType::bytes);
  if (values.has_error()) return values.error();
  return Tensor::strings(std::move(shape), std::move(*values));
}

Result<Tensor> fill_typed(const Layout& layout, DataType type, Shape shape, std::string_view what) {
  switch (type) {
    case DataType::boolean: return fill(layout, type, std::move(shape), &read_boolean, what);
    case DataType::uint8: return fill(layout, type, std::move(shape), &read_integer<std::uint8_t>, what);
    case DataType::uint16: return fill(layout, type, std::move(shape), &read_integer<std::uint16_t>, what);
    case DataType::uint32: return fill(layout, type, std::move(shape), &read_integer<std::uint32_t>, what);
    case DataType::uint64: return fill(layout, type, std::move(shape), &read_integer<std::uint64_t>, what);
    case DataType::int8: return fill(layout, type, std::move(shape), &read_integer<std::int8_t>, what);
    case DataType::int16: return fill(layout, type, std::move(shape), &read_integer<std::int16_t>, what);
    case DataType::int32: return fill(layout, type, std::move(shape), &read_integer<std::int32_t>, what);
    case DataType::int64: return fill(layout, type, std::move(shape), &read_integer<std::int64_t>, what);
    case DataType::fp16: return fill(layout, type, std::move(shape), &read_short_float<&to_half>, what);
    case DataType::bf16: return fill(layout, type, std::move(shape), &read_short_float<&to_bfloat16>, what);
    case DataType::fp32: return fill(layout, type, std::move(shape), &read_float, what);
    case DataType::fp64: return fill(layout, type, std::move(shape), &read_double, what);
    case DataType::bytes: return fill_strings(layout, std::move(shape), what);
  }
  return fail(ErrorCode::internal, "unknown data type");
}

}  // namespace

Result<Tensor> read_tensor(JsonValue data, DataType type, Shape shape, std::string_view what) {
  const auto layout = lay_out(data, shape, what);
  if (layout.has_error()) return layout.error();
  return fill_typed(*layout, type, std::move(shape), what);
}

Result<Tensor> read_shaped(JsonValue data, std::string_view what, std::optional<DataType> type) {
  Shape shape;
  JsonValue first = data;
  simdjson::dom::array array;
  while (first.get(array) == simdjson::SUCCESS) {
    shape.push_back(static_cast<std::int64_t>(size_of(array)));
    if (array.begin() == array.end()) break;
    first = *array.begin();
  }
  if (!shape.empty() && !nests_as(data, shape)) {
    return fail(ErrorCode::invalid_tensor, std::string(what) + " is ragged: rows of one depth differ in length");
  }
  const auto count = static_cast<std::size_t>(loader::element_count(shape).value_or(0));
  const Layout layout{data, shape.size(), count};
  if (type) return fill_typed(layout, *type, std::move(shape), what);
  if (first.is_string()) return fill_strings(layout, std::move(shape), what);
  return fill(layout, DataType::fp32, std::move(shape), &read_loose_float, what);
}

}  // namespace mme::server
