// Writing half of tensor_json: dense tensors into flat or nested JSON arrays.
#include <cmath>
#include <cstring>

#include "server/codecs/half.hpp"
#include "server/codecs/json_writer.hpp"
#include "server/codecs/tensor_json.hpp"

namespace mme::server {
namespace {

using loader::DataType;
using loader::ErrorCode;
using loader::fail;
using loader::Result;
using loader::Tensor;

/// Appends the element at `at`.
using ElementWriter = void (*)(std::string& out, const std::byte* at, JsonStyle style);

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void write_real(std::string& out, T value, JsonStyle style) {
  const bool python = style == JsonStyle::python;
  if (std::isfinite(value)) {
    if (python) {
      append_number(out, static_cast<double>(value));
    } else {
      append_number(out, value);
    }
    return;
  }
  if (!python) out += '"';
  out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  if (!python) out += '"';
}

template <class T>
void write_element(std::string& out, const std::byte* at, JsonStyle style) {
  if constexpr (std::is_floating_point_v<T>) {
    write_real(out, load<T>(at), style);
  } else if constexpr (std::is_signed_v<T>) {
    append_number(out, static_cast<std::int64_t>(load<T>(at)));
  } else {
    append_number(out, static_cast<std::uint64_t>(load<T>(at)));
  }
}

template <float (*Widen)(std::uint16_t) noexcept>
void write_short_float(std::string& out, const std::byte* at, JsonStyle style) {
  write_real(out, Widen(load<std::uint16_t>(at)), style);
}

void write_boolean(std::string& out, const std::byte* at, JsonStyle) {
  out += *at != std::byte{0} ? "true" : "false";
}

ElementWriter writer_of(DataType type) {
  switch (type) {
    case DataType::boolean: return &write_boolean;
    case DataType::uint8: return &write_element<std::uint8_t>;
    case DataType::uint16: return &write_element<std::uint16_t>;
    case DataType::uint32: return &write_element<std::uint32_t>;
    case DataType::uint64: return &write_element<std::uint64_t>;
    case DataType::int8: return &write_element<std::int8_t>;
    case DataType::int16: return &write_element<std::int16_t>;
    case DataType::int32: return &write_element<std::int32_t>;
    case DataType::int64: return &write_element<std::int64_t>;
    case DataType::fp16: return &write_short_float<&half_to_float>;
    case DataType::bf16: return &write_short_float<&bfloat16_to_float>;
    case DataType::fp32: return &write_element<float>;
    case DataType::fp64: return &write_element<double>;
    case DataType::bytes: break;  // written from strings()
  }
  return nullptr;
}

/// Writes runs of elements, one after the other.
class Cursor {
 public:
  Cursor(std::string& out, const Tensor& tensor, JsonStyle style)
      : out_(out), tensor_(tensor), style_(style), write_(writer_of(tensor.type())) {}

  void one() {
    if (write_ == nullptr) {
      append_string(out_, tensor_.strings()[next_]);
    } else {
      write_(out_, tensor_.data().data() + next_ * loader::element_size(tensor_.type()), style_);
    }
    ++next_;
  }
  void run(std::int64_t count) {
    out_ += '[';
    for (std::int64_t i = 0; i < count; ++i) {
      if (i > 0) separate();
      one();
    }
    out_ += ']';
  }
  /// One level of arrays per dimension from `depth` on.
  void nest(std::size_t depth) {
    const loader::Shape& shape = tensor_.shape();
    if (depth + 1 == shape.size()) return run(shape[depth]);
    out_ += '[';
    for (std::int64_t i = 0; i < shape[depth]; ++i) {
      if (i > 0) separate();
      nest(depth + 1);
    }
    out_ += ']';
  }

 private:
  void separate() { out_ += style_ == JsonStyle::python ? ", " : ","; }

  std::string& out_;
  const Tensor& tensor_;
  JsonStyle style_;
  ElementWriter write_;
  std::size_t next_ = 0;
};

Result<void> check_strings(const Tensor& tensor) {
  for (const std::string& text : tensor.strings()) {
    if (!is_utf8(text)) return fail(ErrorCode::not_acceptable, "an output holds bytes that are not UTF-8, so not JSON");
  }
  return {};
}

/// A shape such as [1000000000, 0] has no elements but a thousand million rows.
bool too_many_empty_rows(const loader::Shape& shape) {
  constexpr std::int64_t kMost = 1'000'000;
  std::int64_t rows = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension == 0) return rows > kMost;
    if (__builtin_mul_overflow(rows, dimension, &rows)) rows = kMost + 1;
  }
  return false;
}

}  // namespace

Result<void> write_flat(std::string& out, const Tensor& tensor, JsonStyle style) {
  if (auto checked = check_strings(tensor); checked.has_error()) return checked;
  Cursor(out, tensor, style).run(tensor.count());
  return {};
}

Result<void> write_nested(std::string& out, const Tensor& tensor, JsonStyle style) {
  if (auto checked = check_strings(tensor); checked.has_error()) return checked;
  if (too_many_empty_rows(tensor.shape())) {
    return fail(ErrorCode::not_acceptable, "an output has too many empty rows for nested JSON");
  }
  Cursor cursor(out, tensor, style);
  if (tensor.shape().empty()) {
    cursor.one();
  } else {
    cursor.nest(0);
  }
  return {};
}

}  // namespace mme::server
