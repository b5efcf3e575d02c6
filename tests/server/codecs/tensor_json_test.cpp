// Tensors through JSON: exact both ways, and every misfit refused.
#include "server/codecs/tensor_json.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "server/codecs/half.hpp"
#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace mme::loader;

namespace {

Result<Tensor> read(std::string_view data, DataType type, Shape shape) {
  const auto document = JsonDocument::parse(data);
  REQUIRE(document.has_value());
  return read_tensor(document->root(), type, std::move(shape), "input 'x'");
}

std::string error_of(std::string_view data, DataType type, Shape shape) {
  const auto tensor = read(data, type, std::move(shape));
  if (tensor.has_value()) return "none";
  CHECK(tensor.error().code == ErrorCode::invalid_tensor);
  return tensor.error().message;
}

Result<Tensor> read_any(std::string_view data) {
  const auto document = JsonDocument::parse(data);
  REQUIRE(document.has_value());
  return read_shaped(document->root(), "the input");
}

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.count()));
  REQUIRE(tensor.data().size() == values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data().data(), tensor.data().size());
  return values;
}

std::string flat(const Tensor& tensor, JsonStyle style = JsonStyle::protocol) {
  std::string out;
  REQUIRE(write_flat(out, tensor, style).has_value());
  return out;
}

std::string nested(const Tensor& tensor, JsonStyle style = JsonStyle::python) {
  std::string out;
  REQUIRE(write_nested(out, tensor, style).has_value());
  return out;
}

}  // namespace

TEST_CASE("64-bit integers keep every digit", "[tensor_json]") {
  const auto big = read("[9007199254740993,9223372036854775807,-9223372036854775808]", DataType::int64, {3});
  REQUIRE(big.has_value());
  CHECK(values_of<std::int64_t>(*big) ==
        std::vector<std::int64_t>{9007199254740993, INT64_MAX, std::numeric_limits<std::int64_t>::min()});
  CHECK(flat(*big) == "[9007199254740993,9223372036854775807,-9223372036854775808]");
  const auto unsigned_big = read("[18446744073709551615]", DataType::uint64, {1});
  REQUIRE(unsigned_big.has_value());
  CHECK(flat(*unsigned_big) == "[18446744073709551615]");
}

TEST_CASE("each integer width takes its bounds and refuses what lies beyond", "[tensor_json]") {
  struct Row {
    DataType type;
    const char* least;
    const char* most;
    const char* below;
    const char* above;
  };
  const auto row = GENERATE(values<Row>({
      {DataType::int8, "-128", "127", "-129", "128"},
      {DataType::int16, "-32768", "32767", "-32769", "32768"},
      {DataType::int32, "-2147483648", "2147483647", "-2147483649", "2147483648"},
      {DataType::int64, "-9223372036854775808", "9223372036854775807", "-9223372036854775809", "9223372036854775808"},
      {DataType::uint8, "0", "255", "-1", "256"},
      {DataType::uint16, "0", "65535", "-1", "65536"},
      {DataType::uint32, "0", "4294967295", "-1", "4294967296"},
      {DataType::uint64, "0", "18446744073709551615", "-1", "18446744073709551616"},
  }));
  INFO(to_string(row.type));
  const std::string bounds = "[" + std::string(row.least) + "," + row.most + "]";
  const auto tensor = read(bounds, row.type, {2});
  REQUIRE(tensor.has_value());
  CHECK(flat(*tensor) == bounds);
  CHECK(error_of("[" + std::string(row.below) + "]", row.type, {1}) != "none");
  CHECK(error_of("[" + std::string(row.above) + "]", row.type, {1}) != "none");
  CHECK(error_of("[1.0]", row.type, {1}) != "none");
  CHECK(error_of("[1e2]", row.type, {1}) != "none");
  CHECK(error_of("[1.5]", row.type, {1}) != "none");
  CHECK(error_of("[true]", row.type, {1}) != "none");
  CHECK(error_of("[\"1\"]", row.type, {1}) != "none");
  CHECK(error_of("[null]", row.type, {1}) != "none");
}

TEST_CASE("messages say which element is wrong and why", "[tensor_json]") {
  CHECK(error_of("[1,2,300]", DataType::uint8, {3}) == "element 2 of input 'x' is out of range, for UINT8");
  CHECK(error_of("[[1,2],[1.5,4]]", DataType::int32, {2, 2}) ==
        "element 2 of input 'x' is not an integer of 64 bits or less, for INT32");
  CHECK(error_of("[1,2]", DataType::fp32, {3}) == "input 'x' has 2 elements where its shape [3] needs 3");
  CHECK(error_of("{}", DataType::fp32, {1}) == "the data of input 'x' must be an array, not an object");
  CHECK(error_of("[[1],[2,3]]", DataType::fp32, {2, 1}) ==
        "the data of input 'x' is not nested as its shape [2,1] says");
}

TEST_CASE("a real that would become infinite is refused in every width", "[tensor_json]") {
  CHECK(error_of("[3.4028235677973366e38]", DataType::fp32, {1}) == "element 0 of input 'x' is out of range, for FP32");
  CHECK(error_of("[-1e39]", DataType::fp32, {1}) != "none");
  CHECK(error_of("[3.4028235677973362e38]", DataType::fp32, {1}) == "none");
  CHECK(error_of("[65520]", DataType::fp16, {1}) != "none");
  CHECK(error_of("[65519]", DataType::fp16, {1}) == "none");
  CHECK(error_of("[3.4e38]", DataType::bf16, {1}) != "none");
  CHECK(error_of("[1e308]", DataType::fp64, {1}) == "none");
  CHECK(error_of("[true]", DataType::fp32, {1}) != "none");
  CHECK(error_of("[\"1\"]", DataType::fp32, {1}) != "none");
}

TEST_CASE("integers fill reals, rounded once", "[tensor_json]") {
  const auto tensor = read("[1,-2,18446744073709551615,100000000000000000000,9007199791611905]", DataType::fp32, {5});
  REQUIRE(tensor.has_value());
  // The last one lies just above the middle of two floats; by way of double it would fall to even.
  CHECK(values_of<float>(*tensor) == std::vector<float>{1.F, -2.F, 18446744073709551615.F, 1e20F,
                                                        static_cast<float>(std::int64_t{9007199791611905})});
}

TEST_CASE("NaN and infinity are names on the way in", "[tensor_json]") {
  for (const DataType type : {DataType::fp16, DataType::bf16, DataType::fp32, DataType::fp64}) {
    const auto tensor = read(R"(["NaN","Infinity","-Infinity",1])", type, {4});
    REQUIRE(tensor.has_value());
    CHECK(flat(*tensor) == R"(["NaN","Infinity","-Infinity",1.0])");
    CHECK(flat(*tensor, JsonStyle::python) == "[NaN, Infinity, -Infinity, 1.0]");
  }
  CHECK(error_of(R"(["nan"])", DataType::fp32, {1}) != "none");
  CHECK(error_of(R"(["NaN"])", DataType::int32, {1}) != "none");
}

TEST_CASE("booleans are true and false only", "[tensor_json]") {
  const auto tensor = read("[true,false]", DataType::boolean, {2});
  REQUIRE(tensor.has_value());
  CHECK(values_of<std::uint8_t>(*tensor) == std::vector<std::uint8_t>{1, 0});
  CHECK(flat(*tensor) == "[true,false]");
  CHECK(error_of("[1]", DataType::boolean, {1}) == "element 0 of input 'x' is not true or false, for BOOL");
}

TEST_CASE("strings are BYTES, and bytes that are no UTF-8 are not JSON", "[tensor_json]") {
  const auto tensor = read(R"(["a","","\u0000\u00e9"])", DataType::bytes, {3});
  REQUIRE(tensor.has_value());
  CHECK(tensor->strings()[2] == std::string("\0\xc3\xa9", 3));
  CHECK(flat(*tensor) == "[\"a\",\"\",\"\\u0000\xc3\xa9\"]");
  CHECK(error_of("[1]", DataType::bytes, {1}) == "element 0 of input 'x' is not a string, for BYTES");
  std::string out;
  CHECK(write_flat(out, *Tensor::strings({1}, {"\xff"}), JsonStyle::protocol).error().code ==
        ErrorCode::not_acceptable);
}

TEST_CASE("flat and nested data of one shape are equal", "[tensor_json]") {
  const auto a = read("[1,2,3,4]", DataType::fp32, {2, 2});
  const auto b = read("[[1,2],[3,4]]", DataType::fp32, {2, 2});
  REQUIRE(a.has_value());
  REQUIRE(b.has_value());
  CHECK(values_of<float>(*a) == values_of<float>(*b));
}

TEST_CASE("ragged, short, long and mixed data are refused", "[tensor_json]") {
  const auto data = GENERATE(as<std::string>{}, "[[1,2],[3]]", "[[1,2],3]", "[1,[2,3],4]", "[[1,2,3,4]]", "[1,2,3]",
                             "[1,2,3,4,5]", "[]", "[[]]", "[[1,2],[3,4],[5,6]]", "[[[1],[2]],[[3],[4]]]", "1", "null",
                             "[[1,2],[3,[4]]]", "[[1,2],{}]");
  INFO(data);
  CHECK(error_of(data, DataType::fp32, {2, 2}) != "none");
}

TEST_CASE("shapes that are hostile are refused before anything is allocated", "[tensor_json]") {
  const std::int64_t huge = 1LL << 62;
  CHECK(error_of("[]", DataType::fp64, {huge}) != "none");
  CHECK(error_of("[1]", DataType::fp32, {huge, 4}) == "input 'x' has a shape that is negative or too large");
  CHECK(error_of("[1]", DataType::fp32, {-1}) == "input 'x' has a shape that is negative or too large");
  CHECK(error_of("[1]", DataType::fp32, Shape(65, 1)) == "input 'x' has a shape that is negative or too large");
  CHECK(error_of("[1]", DataType::fp32, Shape(64, 1)) == "none");
}

TEST_CASE("shapes without elements are shapes", "[tensor_json]") {
  CHECK(error_of("[]", DataType::fp32, {0}) == "none");
  CHECK(error_of("[]", DataType::fp32, {0, 64}) == "none");
  CHECK(error_of("[[],[]]", DataType::fp32, {2, 0}) == "none");
  CHECK(error_of("[]", DataType::fp32, {2, 0}) == "none");
  CHECK(error_of("[]", DataType::bytes, {0}) == "none");
  CHECK(error_of("[1]", DataType::fp32, {0}) != "none");
  CHECK(error_of("[1]", DataType::fp32, {}) == "none");
  CHECK(error_of("[]", DataType::fp32, {}) != "none");
  const auto empty = Tensor::take<float>(DataType::fp32, {2, 0, 3}, {});
  CHECK(flat(*empty) == "[]");
  CHECK(nested(*empty) == "[[], []]");
  std::string out;
  CHECK(
      write_nested(out, *Tensor::take<float>(DataType::fp32, {1'000'000'000, 0}, {}), JsonStyle::python).error().code ==
      ErrorCode::not_acceptable);
}

TEST_CASE("more elements than simdjson counts are counted", "[tensor_json]") {
  std::string data = "[0";
  for (int i = 1; i < 0x1000005; ++i) data += ",0";
  data += "]";
  CHECK(error_of(data, DataType::int8, {0xFFFFFF}) ==
        "input 'x' has 16777221 elements where its shape [16777215] needs 16777215");
}

TEST_CASE("the nesting of a bare array is its shape", "[tensor_json]") {
  struct Row {
    const char* data;
    Shape shape;
    DataType type;
  };
  const auto row = GENERATE(values<Row>({{"[1,2.5,-3]", {3}, DataType::fp32},
                                         {"[[1,2],[3,4],[5,6]]", {3, 2}, DataType::fp32},
                                         {"[[[1]]]", {1, 1, 1}, DataType::fp32},
                                         {"5", {}, DataType::fp32},
                                         {"[]", {0}, DataType::fp32},
                                         {"[[],[]]", {2, 0}, DataType::fp32},
                                         {"[true,0]", {2}, DataType::fp32},
                                         {R"("text")", {}, DataType::bytes},
                                         {R"([["a"],["b"]])", {2, 1}, DataType::bytes}}));
  INFO(row.data);
  const auto tensor = read_any(row.data);
  REQUIRE(tensor.has_value());
  CHECK(tensor->shape() == row.shape);
  CHECK(tensor->type() == row.type);
}

TEST_CASE("a bare array that is no tensor is refused", "[tensor_json]") {
  const auto data = GENERATE(as<std::string>{}, "[[1,2],[3]]", "[1,[2]]", "[[1],2]", "[null]", "null", "{}", "[{}]",
                             R"(["a",1])", R"([1,"a"])", R"([1,"NaN"])", "[1e39]", "[[[]],[]]", "[[],[1]]");
  INFO(data);
  const auto tensor = read_any(data);
  REQUIRE(tensor.has_error());
  CHECK(tensor.error().code == ErrorCode::invalid_tensor);
}

TEST_CASE("nested output is what json.dumps writes of tensor.tolist()", "[tensor_json]") {
  const auto tensor = Tensor::take<float>(DataType::fp32, {2, 2}, {1.F, 0.1F, NAN, 1e20F});
  CHECK(nested(*tensor) == "[[1.0, 0.10000000149011612], [NaN, 1.0000000200408773e+20]]");
  CHECK(nested(*Tensor::take<double>(DataType::fp64, {}, {0.1})) == "0.1");
  CHECK(nested(*Tensor::take<std::int64_t>(DataType::int64, {1, 1, 2}, {1, -2})) == "[[[1, -2]]]");
  CHECK(nested(*Tensor::take<std::uint8_t>(DataType::boolean, {2}, {1, 0})) == "[true, false]");
  CHECK(nested(*Tensor::strings({}, {"a"})) == "\"a\"");
  CHECK(nested(*Tensor::strings({2}, {"a", "b"})) == R"(["a", "b"])");
}

namespace {

/// Random bits through flat JSON and back; NaN payloads are not kept, all else is.
template <class T, class IsNan>
void round_trip(DataType type, IsNan is_nan) {
  std::mt19937_64 random(23);
  std::vector<T> values(4096);
  for (T& value : values) {
    do {
      const std::uint64_t bits = random();
      std::memcpy(&value, &bits, sizeof value);
      if constexpr (sizeof(T) == 1) value = type == DataType::boolean ? static_cast<T>(bits & 1U) : value;
    } while (is_nan(value));
  }
  const auto tensor = Tensor::take<T>(type, {64, 64}, values);
  const auto back = read(flat(*tensor), type, {64, 64});
  REQUIRE(back.has_value());
  CHECK(std::memcmp(back->data().data(), tensor->data().data(), tensor->data().size()) == 0);
  const auto nested_back = read(nested(*tensor, JsonStyle::protocol), type, {64, 64});
  REQUIRE(nested_back.has_value());
  CHECK(std::memcmp(nested_back->data().data(), tensor->data().data(), tensor->data().size()) == 0);
}

}  // namespace

TEST_CASE("random tensors of every type come back to the last bit", "[tensor_json]") {
  const auto never = [](auto) { return false; };
  const auto nan = [](auto value) { return std::isnan(value); };
  round_trip<std::uint8_t>(DataType::boolean, never);
  round_trip<std::uint8_t>(DataType::uint8, never);
  round_trip<std::uint16_t>(DataType::uint16, never);
  round_trip<std::uint32_t>(DataType::uint32, never);
  round_trip<std::uint64_t>(DataType::uint64, never);
  round_trip<std::int8_t>(DataType::int8, never);
  round_trip<std::int16_t>(DataType::int16, never);
  round_trip<std::int32_t>(DataType::int32, never);
  round_trip<std::int64_t>(DataType::int64, never);
  round_trip<std::uint16_t>(DataType::fp16, [](std::uint16_t bits) { return std::isnan(half_to_float(bits)); });
  round_trip<std::uint16_t>(DataType::bf16, [](std::uint16_t bits) { return std::isnan(bfloat16_to_float(bits)); });
  round_trip<float>(DataType::fp32, nan);
  round_trip<double>(DataType::fp64, nan);
}
