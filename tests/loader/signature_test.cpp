// Binding named tensors to the arguments of forward.
#include "loader/signature.hpp"

#include "tests/support/catch.hpp"

using namespace mme::loader;

namespace {

NamedTensor floats(std::string name) {
  return {std::move(name), *Tensor::take<float>(DataType::fp32, {1}, {1.F})};
}
NamedTensor text(std::string name) {
  return {std::move(name), *Tensor::strings({1}, {"a"})};
}

const Signature kTwo{{{"a", ArgumentKind::tensor, false, "Tensor"}, {"b", ArgumentKind::tensor, false, "Tensor"}}, {}};

std::string error_of(const Signature& signature, const TensorMap& inputs) {
  const auto bound = bind(signature, inputs);
  REQUIRE(bound.has_error());
  CHECK(bound.error().code == ErrorCode::invalid_tensor);
  return bound.error().message;
}

}  // namespace

TEST_CASE("inputs are bound by name in any order", "[signature]") {
  const auto bound = bind(kTwo, {floats("b"), floats("a")});
  REQUIRE(bound.has_value());
  CHECK((*bound)[0].tensors == std::vector<std::size_t>{1});
  CHECK((*bound)[1].tensors == std::vector<std::size_t>{0});
}

TEST_CASE("inputs are bound by position", "[signature]") {
  const auto bound = bind(kTwo, {floats("INPUT__1"), floats("INPUT__0")});
  REQUIRE(bound.has_value());
  CHECK((*bound)[0].tensors == std::vector<std::size_t>{1});
}

TEST_CASE("wrong names and counts are refused with the name", "[signature]") {
  CHECK(error_of(kTwo, {floats("a")}) == "input 'b' is missing");
  CHECK(error_of(kTwo, {floats("a"), floats("a")}) == "input 'a' is given twice");
  CHECK(error_of(kTwo, {floats("a"), floats("INPUT__0")}) == "input 'INPUT__0' is given twice");
  CHECK(error_of(kTwo, {floats("a"), floats("b"), floats("c")}) == "the model has no input 'c'");
  CHECK(error_of(kTwo, {text("a"), floats("b")}) == "input 'a' takes a tensor of numbers, not BYTES");
}

TEST_CASE("a list takes elements without a gap, in any order", "[signature]") {
  const Signature list{{{"x", ArgumentKind::tensor_list, false, "List[Tensor]"}}, {}};
  const auto bound = bind(list, {floats("x.1"), floats("x.0")});
  REQUIRE(bound.has_value());
  CHECK((*bound)[0].tensors == std::vector<std::size_t>{1, 0});
  CHECK(bind(list, {floats("x.1")}).has_error());
  CHECK(bind(list, {floats("x.00")}).has_error());
  CHECK(bind(list, {floats("x")}).has_error());
}

TEST_CASE("a dict takes any key once", "[signature]") {
  const Signature dict{{{"x", ArgumentKind::tensor_dict, false, "Dict[str, Tensor]"}}, {}};
  const auto bound = bind(dict, {floats("x.b"), floats("x.a.c")});
  REQUIRE(bound.has_value());
  CHECK((*bound)[0].keys == std::vector<std::string>{"b", "a.c"});
  CHECK(error_of(dict, {floats("x.b"), floats("INPUT__0.b")}) == "input 'INPUT__0.b' is given twice");
}

TEST_CASE("optional arguments may be left out", "[signature]") {
  const Signature optional{{{"x", ArgumentKind::tensor, false, "Tensor"}, {"n", ArgumentKind::integer, true, "int"}},
                           {}};
  const auto bound = bind(optional, {floats("x")});
  REQUIRE(bound.has_value());
  CHECK((*bound)[1].missing);
  CHECK(error_of(optional, {floats("x"), floats("n")}) == "input 'n' takes one integer");
}
