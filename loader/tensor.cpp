#include "loader/tensor.hpp"

#include <utility>

#include <array>

namespace mme::loader {
namespace {

struct TypeRow {
  std::string_view name;
  std::size_t size;
};

// In the order of the enumerators.
constexpr std::array<TypeRow, 14> kTypes{{{"BOOL", 1},
                                          {"UINT8", 1},
                                          {"UINT16", 2},
                                          {"UINT32", 4},
                                          {"UINT64", 8},
                                          {"INT8", 1},
                                          {"INT16", 2},
                                          {"INT32", 4},
                                          {"INT64", 8},
                                          {"FP16", 2},
                                          {"BF16", 2},
                                          {"FP32", 4},
                                          {"FP64", 8},
                                          {"BYTES", 0}}};

const TypeRow& row(DataType type) noexcept {
  return kTypes[static_cast<std::size_t>(type)];
}

}  // namespace

std::size_t element_size(DataType type) noexcept {
  return row(type).size;
}

std::string_view to_string(DataType type) noexcept {
  return row(type).name;
}

std::optional<DataType> parse_data_type(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<DataType>(i);
  }
  return std::nullopt;
}

std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape) noexcept {
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    empty = empty || dimension == 0;
  }
  if (empty) return 0;
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(count, dimension, &count)) return std::nullopt;
  }
  return count;
}

std::string to_string(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t dimension : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(dimension);
  }
  return text + "]";
}

Result<Tensor> Tensor::wrap(DataType type, Shape shape, std::shared_ptr<const void> owner, const std::byte* data,
                            std::size_t size) {
  const auto count = element_count(shape);
  if (!count) return fail(ErrorCode::invalid_tensor, "shape " + to_string(shape) + " is negative or too large");
  std::size_t needed = 0;
  if (type == DataType::bytes ||
      __builtin_mul_overflow(static_cast<std::size_t>(*count), element_size(type), &needed) || needed != size) {
    return fail(ErrorCode::invalid_tensor, "shape " + to_string(shape) + " of " + std::string(to_string(type)) +
                                               " does not match " + std::to_string(size) + " bytes of data");
  }
  Tensor tensor;
  tensor.type_ = type;
  tensor.shape_ = std::move(shape);
  tensor.owner_ = std::move(owner);
  tensor.data_ = data;
  tensor.size_ = size;
  return tensor;
}

Result<Tensor> Tensor::strings(Shape shape, std::vector<std::string> values) {
  const auto count = element_count(shape);
  if (!count || static_cast<std::size_t>(*count) != values.size()) {
    return fail(ErrorCode::invalid_tensor,
                "shape " + to_string(shape) + " does not match " + std::to_string(values.size()) + " strings");
  }
  Tensor tensor;
  tensor.type_ = DataType::bytes;
  tensor.shape_ = std::move(shape);
  tensor.strings_ = std::make_shared<const std::vector<std::string>>(std::move(values));
  return tensor;
}

Tensor Tensor::with(std::shared_ptr<const void> companion) const {
  using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  Tensor tensor = *this;
  if (strings_) {
    const auto* values = strings_.get();
    tensor.strings_ = {std::make_shared<Both>(strings_, std::move(companion)), values};
  } else {
    tensor.owner_ = std::make_shared<Both>(owner_, std::move(companion));
  }
  return tensor;
}

std::int64_t Tensor::count() const noexcept {
  return element_count(shape_).value_or(0);
}

std::span<const std::string> Tensor::strings() const noexcept {
  if (!strings_) return {};
  return *strings_;
}

std::size_t Tensor::byte_size() const noexcept {
  std::size_t total = size_;
  for (const std::string& text : strings()) total += text.size();
  return total;
}

const Tensor* find(const TensorMap& tensors, std::string_view name) noexcept {
  for (const NamedTensor& entry : tensors) {
    if (entry.name == name) return &entry.tensor;
  }
  return nullptr;
}

}  // namespace mme::loader
