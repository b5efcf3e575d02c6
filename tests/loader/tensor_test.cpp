// Tensors hold exactly what their shape says.
#include "loader/tensor.hpp"

#include <limits>

#include "tests/support/catch.hpp"

using namespace mme::loader;

TEST_CASE("every data type has a name that parses back", "[tensor]") {
  for (int i = 0; i <= static_cast<int>(DataType::bytes); ++i) {
    const auto type = static_cast<DataType>(i);
    CHECK(parse_data_type(to_string(type)) == type);
  }
  CHECK(parse_data_type("fp32") == std::nullopt);
  CHECK(parse_data_type("") == std::nullopt);
}

TEST_CASE("element counts know scalars, zeros and overflow", "[tensor]") {
  const std::int64_t big = std::numeric_limits<std::int64_t>::max();
  CHECK(element_count(Shape{}) == 1);
  CHECK(element_count(Shape{2, 3}) == 6);
  CHECK(element_count(Shape{0, 64}) == 0);
  CHECK(element_count(Shape{big, big, 0}) == 0);
  CHECK(element_count(Shape{-1, 2}) == std::nullopt);
  CHECK(element_count(Shape{big, 2}) == std::nullopt);
  CHECK(element_count(Shape{1LL << 32, 1LL << 32}) == std::nullopt);
}

TEST_CASE("a tensor refuses bytes that do not match its shape", "[tensor]") {
  CHECK(Tensor::take<float>(DataType::fp32, {2}, {1.F, 2.F}).has_value());
  const auto small = Tensor::take<float>(DataType::fp32, {3}, {1.F, 2.F});
  REQUIRE(small.has_error());
  CHECK(small.error().code == ErrorCode::invalid_tensor);
  CHECK(small.error().message == "shape [3] of FP32 does not match 8 bytes of data");
  // 2^62 elements of 8 bytes leave size_t.
  CHECK(Tensor::wrap(DataType::fp64, {1LL << 62}, nullptr, nullptr, 0).has_error());
  CHECK(Tensor::strings({2}, {"a"}).has_error());
}

TEST_CASE("an empty tensor needs no bytes", "[tensor]") {
  const auto empty = Tensor::wrap(DataType::fp32, {0, 64}, nullptr, nullptr, 0);
  REQUIRE(empty.has_value());
  CHECK(empty->count() == 0);
}
