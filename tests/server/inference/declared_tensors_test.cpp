// What operators declare about inputs and outputs, applied to calls and to metadata.
#include "server/inference/declared_tensors.hpp"

#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace mme::loader;

namespace {

NamedTensor floats(std::string name, Shape shape) {
  const auto count = static_cast<std::size_t>(*element_count(shape));
  return {std::move(name), *Tensor::take<float>(DataType::fp32, std::move(shape), std::vector<float>(count))};
}

const std::vector<TensorOptions> kDeclared{{"ids", DataType::fp32, Shape{-1, 3}}, {"mask", std::nullopt, std::nullopt}};

}  // namespace

TEST_CASE("declared names of inputs become the model's positions, in any order", "[declared]") {
  TensorMap inputs{floats("mask", {1}), floats("other", {1}), floats("ids", {2, 3})};
  REQUIRE(bind_declared(kDeclared, inputs).has_value());
  CHECK(inputs[0].name == "INPUT__1");
  CHECK(inputs[1].name == "other");
  CHECK(inputs[2].name == "INPUT__0");
}

TEST_CASE("a datatype or a shape that is not as declared is refused by the name that was used", "[declared]") {
  TensorMap shape{floats("ids", {2, 4})};
  CHECK(bind_declared(kDeclared, shape).error().message == "input 'ids' takes the shape [-1,3], not [2,4]");
  TensorMap rank{floats("INPUT__0", {3})};
  CHECK(bind_declared(kDeclared, rank).error().message == "input 'INPUT__0' takes the shape [-1,3], not [3]");
  TensorMap type{{"ids", *Tensor::take<std::int64_t>(DataType::int64, {1, 3}, {1, 2, 3})}};
  const auto refused = bind_declared(kDeclared, type);
  REQUIRE(refused.has_error());
  CHECK(refused.error().code == ErrorCode::invalid_tensor);
  CHECK(refused.error().message == "input 'ids' takes FP32, not INT64");
}

TEST_CASE("declared names go to outputs that the model does not name, and to no others", "[declared]") {
  TensorMap outputs{floats("OUTPUT__1", {1}), floats("score", {1}), floats("OUTPUT__0", {1}), floats("OUTPUT__2", {1})};
  name_outputs(kDeclared, outputs);
  CHECK(outputs[0].name == "mask");
  CHECK(outputs[1].name == "score");
  CHECK(outputs[2].name == "ids");
  CHECK(outputs[3].name == "OUTPUT__2");
}

TEST_CASE("metadata is what is known with what is declared written over it", "[declared]") {
  const auto infos = with_declared({{"x", DataType::int64, {-1}}}, kDeclared);
  REQUIRE(infos.size() == 2);
  CHECK(infos[0].name == "ids");
  CHECK(infos[0].type == DataType::fp32);
  CHECK(infos[0].shape == Shape{-1, 3});
  CHECK(infos[1].name == "mask");
  CHECK(with_declared({{"x", DataType::int64, {-1}}}, {}).front().name == "x");
}
