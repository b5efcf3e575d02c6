// Writing half of tensor_json: dense tensors into flat or nested JSON arrays.
#include <algorithm>
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

/// Most bytes that one element takes, its separator included; of strings, all but their text.
constexpr std::size_t kWidest = 32;
/// Elements between two looks at the room that is left.
constexpr std::int64_t kStretch = 4096;

/// Writes runs of elements, one after the other, until there is no room.
class Cursor {
 public:
  Cursor(std::string& out, const Tensor& tensor, JsonStyle style, const Reserve& reserve)
      : out_(out), tensor_(tensor), style_(style), reserve_(reserve), write_(writer_of(tensor.type())) {}

  /// The whole tensor: flat, or one level of arrays per dimension.
  Result<void> flat() {
    run(tensor_.count());
    return std::move(room_);
  }
  Result<void> nested() {
    if (tensor_.shape().empty()) {
      if (has_room(1)) one();
    } else {
      nest(0);
    }
    return std::move(room_);
  }

 private:
  void one() {
    if (write_ == nullptr) {
      append_string(out_, tensor_.strings()[next_]);
    } else {
      write_(out_, tensor_.data().data() + next_ * loader::element_size(tensor_.type()), style_);
    }
    ++next_;
  }
  void run(std::int64_t count) {
    if (!has_room(0)) return;
    out_ += '[';
    const std::int64_t stretch = write_ == nullptr ? 1 : kStretch;  // strings have any length
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t next = std::min(done + stretch, count);
      if (!has_room(static_cast<std::size_t>(next - done))) return;
      for (; done < next; ++done) {
        if (done > 0) separate();
        one();
      }
    }
    out_ += ']';
  }
  void nest(std::size_t depth) {
    const loader::Shape& shape = tensor_.shape();
    if (depth + 1 == shape.size()) return run(shape[depth]);
    out_ += '[';
    for (std::int64_t i = 0; i < shape[depth] && room_.has_value(); ++i) {
      if (i > 0) separate();
      nest(depth + 1);
    }
    out_ += ']';
  }
  void separate() { out_ += style_ == JsonStyle::python ? ", " : ","; }

  /// Room for that many elements and for the brackets around them.
  bool has_room(std::size_t elements) {
    if (!reserve_ || room_.has_error()) return room_.has_value();
    constexpr std::size_t kBrackets = 4 * 64;  // a pair and a separator for each dimension
    std::size_t need = elements * kWidest + kBrackets;
    if (write_ == nullptr && elements > 0) need += 6 * tensor_.strings()[next_].size();  // \u0000 is the longest escape
    if (out_.capacity() - out_.size() < need) room_ = reserve_(out_, std::max(need, expected()));
    return room_.has_value();
  }
  /// What is still to come, if it is like what was.
  [[nodiscard]] std::size_t expected() const {
    if (next_ == 0) return 0;
    const double each = static_cast<double>(out_.size() - begin_) / static_cast<double>(next_);
    return static_cast<std::size_t>(1.05 * each *
                                    static_cast<double>(static_cast<std::size_t>(tensor_.count()) - next_));
  }

  std::string& out_;
  const Tensor& tensor_;
  JsonStyle style_;
  const Reserve& reserve_;
  ElementWriter write_;
  std::size_t begin_ = out_.size();
  std::size_t next_ = 0;
  Result<void> room_;
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

Result<void> write_flat(std::string& out, const Tensor& tensor, JsonStyle style, const Reserve& reserve) {
  if (auto checked = check_strings(tensor); checked.has_error()) return checked;
  return Cursor(out, tensor, style, reserve).flat();
}

Result<void> write_nested(std::string& out, const Tensor& tensor, JsonStyle style, const Reserve& reserve) {
  if (auto checked = check_strings(tensor); checked.has_error()) return checked;
  if (too_many_empty_rows(tensor.shape())) {
    return fail(ErrorCode::not_acceptable, "an output has too many empty rows for nested JSON");
  }
  return Cursor(out, tensor, style, reserve).nested();
}

}  // namespace mme::server
