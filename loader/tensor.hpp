// Tensors as the server moves them: a dtype, a shape and shared bytes. Not libtorch's: that one stays in loader/torch.
// Nothing here computes; layouts are always dense and row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/error.hpp"

namespace mme::loader {

/// Element types, named as the Open Inference Protocol names them. BYTES is a sequence of byte strings.
enum class DataType : std::uint8_t {
  boolean,
  uint8,
  uint16,
  uint32,
  uint64,
  int8,
  int16,
  int32,
  int64,
  fp16,
  bf16,
  fp32,
  fp64,
  bytes,
};

/// Width of one element in bytes; 0 for `bytes`, whose elements vary.
[[nodiscard]] std::size_t element_size(DataType type) noexcept;
/// "FP32", "BOOL", ... and back; nullopt for a name that is none of them (names are case-sensitive).
[[nodiscard]] std::string_view to_string(DataType type) noexcept;
[[nodiscard]] std::optional<DataType> parse_data_type(std::string_view name) noexcept;

using Shape = std::vector<std::int64_t>;

/// Number of elements of a shape; nullopt when a dimension is negative or the product leaves int64.
/// A shape with no dimensions has one element; a shape with a zero has none, whatever the other dimensions are.
[[nodiscard]] std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape) noexcept;
/// "[2,3]"
[[nodiscard]] std::string to_string(std::span<const std::int64_t> shape);

/// A dense row-major tensor that shares ownership of its bytes. Cheap to copy, immutable once made, safe to read from
/// several threads. Invariant: `element_count(shape)` is known and matches the bytes (or the strings) exactly.
class Tensor {
 public:
  Tensor() = default;

  /// Wraps bytes that `owner` keeps alive; no copy. Fails with invalid_tensor unless `size` is exactly what shape and
  /// type need. `data` may be null only when size is 0.
  static Result<Tensor> wrap(DataType type, Shape shape, std::shared_ptr<const void> owner, const std::byte* data,
                             std::size_t size);
  /// Takes a vector of fixed-width elements.
  template <class T>
  static Result<Tensor> take(DataType type, Shape shape, std::vector<T> values) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const auto* data = reinterpret_cast<const std::byte*>(owner->data());
    const std::size_t size = owner->size() * sizeof(T);
    return wrap(type, std::move(shape), std::move(owner), data, size);
  }
  /// A BYTES tensor; one string an element.
  static Result<Tensor> strings(Shape shape, std::vector<std::string> values);

  /// The same tensor, which also keeps `companion` alive as long as its bytes are in use.
  [[nodiscard]] Tensor with(std::shared_ptr<const void> companion) const;

  [[nodiscard]] DataType type() const noexcept { return type_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::int64_t count() const noexcept;
  /// Raw little-endian elements; empty for BYTES.
  [[nodiscard]] std::span<const std::byte> data() const noexcept { return {data_, size_}; }
  /// The elements of a BYTES tensor; empty for every other type.
  [[nodiscard]] std::span<const std::string> strings() const noexcept;
  /// Bytes of payload: data, or the sum of string lengths.
  [[nodiscard]] std::size_t byte_size() const noexcept;
  /// What keeps `data()` alive.
  [[nodiscard]] const std::shared_ptr<const void>& owner() const noexcept { return owner_; }

 private:
  DataType type_ = DataType::fp32;
  Shape shape_{0};
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<const std::vector<std::string>> strings_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
/// Inputs or outputs in the order they were given. Names are unique; whoever builds one sees to that.
using TensorMap = std::vector<NamedTensor>;

[[nodiscard]] const Tensor* find(const TensorMap& tensors, std::string_view name) noexcept;

}  // namespace mme::loader
