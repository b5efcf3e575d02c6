// Holds that the made models exist, load plainly where they should, and do what their names say.
// Hostile models are loaded only where that ends; none of them is run.
#include "tests/models/test_models.hpp"

#include <torch/script.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace {

namespace fs = std::filesystem;

/// Every model, made once for the whole program and removed at its end.
class Kit {
 public:
  Kit() : folder_(fs::temp_directory_path() / ("mme_kit_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
    mme::models::make_plain_models(folder_);
    mme::models::make_weighted_models(folder_, /*with_big256=*/false);
    mme::models::make_hostile_models(folder_);
    mme::models::make_broken_files(folder_);
  }
  ~Kit() { fs::remove_all(folder_); }
  Kit(const Kit&) = delete;
  Kit& operator=(const Kit&) = delete;

  [[nodiscard]] const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

const fs::path& kit() {
  static const Kit made;
  return made.folder();
}

torch::jit::Module load(const std::string& name) {
  return torch::jit::load((kit() / (name + ".pt")).string());
}

torch::Tensor x() {
  return torch::tensor({1.0F, 2.0F});
}

c10::IValue run(const std::string& name, std::vector<c10::IValue> arguments = {x()}) {
  torch::NoGradGuard no_grad;
  return load(name).forward(std::move(arguments));
}

bool same(const c10::IValue& value, std::vector<float> expected) {
  return value.isTensor() && torch::equal(value.toTensor().to(torch::kFloat), torch::tensor(expected));
}

}  // namespace

TEST_CASE("every model that scenarios name is made") {
  const std::string names[] = {
      "echo",       "add1",     "two",        "nan",      "boom",    "loop",  "print",  "scalar",  "empty",
      "transp",     "none",     "pyint",      "str",      "bool",    "i64",   "f16",    "bf16",    "cplx",
      "tuple",      "list",     "dict",       "nested",   "liststr", "instr", "state",  "slow",    "spin32",
      "growslow32", "grow32",   "growfail32", "hugeout",  "peak1g",  "ver1",  "ver2",   "big1",    "big32",
      "big64",      "mlp",      "tuned",      "counting", "opt",     "tlist", "tdict",  "scalars", "zero",
      "rand",       "trunc",    "segv",       "slowload", "wr",      "rd",    "wrload", "pyfloat", "statedict",
      "pybool",     "growload", "loopload"};
  for (const std::string& name : names) {
    INFO(name);
    CHECK(fs::is_regular_file(kit() / (name + ".pt")));
  }
}

TEST_CASE("models that are only hostile when run load plainly") {
  for (const std::string name : {"loop", "boom", "hugeout", "peak1g", "wr", "rd", "print", "slow"}) {
    INFO(name);
    CHECK_NOTHROW(load(name));
  }
}

TEST_CASE("files that are no models are refused by a plain load") {
  for (const std::string name : {"zero", "rand", "trunc", "statedict"}) {
    INFO(name);
    CHECK_THROWS(load(name));
  }
}

TEST_CASE("tensor models answer as their names say") {
  CHECK(same(run("echo"), {1, 2}));
  CHECK(same(run("add1"), {2, 3}));
  CHECK(same(run("ver1"), {1, 1}));
  CHECK(same(run("ver2"), {2, 2}));
  CHECK(same(run("empty"), {}));
  CHECK(same(run("big1"), {2, 3}));
  CHECK(same(run("big32"), {2, 3}));
  CHECK(run("scalar").toTensor().dim() == 0);
  CHECK(run("f16").toTensor().scalar_type() == torch::kHalf);
  CHECK(run("bf16").toTensor().scalar_type() == torch::kBFloat16);
  CHECK(run("bool").toTensor().scalar_type() == torch::kBool);
  CHECK(run("cplx").toTensor().is_complex());
  CHECK(run("i64").toTensor()[0].item<std::int64_t>() == 9007199254740993);
  CHECK(run("transp", {torch::ones({2, 3})}).toTensor().sizes() == c10::IntArrayRef({3, 2}));
  CHECK(run("mlp", {torch::ones({3, 64})}).toTensor().sizes() == c10::IntArrayRef({3, 64}));
}

TEST_CASE("values that are no tensors come out as themselves") {
  CHECK(run("none").isNone());
  CHECK(run("pyint").toInt() == 2);
  CHECK(run("pyfloat").toDouble() == 1.0);
  CHECK(run("pybool").toBool());
  CHECK(run("str").toStringRef() == "hé");
  CHECK(run("tuple").isTuple());
  CHECK(run("list").isTensorList());
  CHECK(run("liststr").isList());
  CHECK(same(run("dict").toGenericDict().at("a"), {2, 3}));
  CHECK(run("nested").toGenericDict().at("k").isTuple());
}

TEST_CASE("arguments of every kind are taken") {
  CHECK(same(run("two", {x(), x()}), {2, 4}));
  CHECK(same(run("opt"), {1, 2}));
  CHECK(same(run("opt", {x(), x()}), {2, 4}));
  CHECK(same(run("scalars", {x(), 2, 0.5, true}), {-2.5F, -4.5F}));
  CHECK(same(run("tlist", {std::vector<torch::Tensor>{x(), x(), x()}}), {3, 6}));
  c10::Dict<std::string, torch::Tensor> named;
  named.insert("a", x() * 3);
  named.insert("b", x());
  CHECK(same(run("tdict", {named}), {2, 4}));
  const c10::List<std::string> words({"q"});
  CHECK(run("instr", {words}).toList().get(0).toStringRef() == "q!");
}

TEST_CASE("a model that raises says boom") {
  std::string said;
  try {
    run("boom");
  } catch (const std::exception& error) {
    said = error.what();
  }
  CHECK(said.find("boom") != std::string::npos);
}

TEST_CASE("the stateful model counts its calls") {
  torch::NoGradGuard no_grad;
  torch::jit::Module state = load("state");
  CHECK(same(state.forward({x()}), {1}));
  CHECK(same(state.forward({x()}), {2}));
}

TEST_CASE("__setstate__ runs at load and its state arrives") {
  torch::jit::Module loaded = load("slowload_short");
  CHECK(loaded.attr("a").toInt() == 150);
  CHECK_FALSE(loaded.is_training());
  CHECK(loaded.find_method("__setstate__").has_value());
}

TEST_CASE("twins differ in each 64 KiB and answer alike") {
  torch::NoGradGuard no_grad;
  mme::models::make_twins(kit(), "big1", 2);
  torch::jit::Module first = load("big1_0");
  torch::jit::Module second = load("big1_1");
  const torch::Tensor differs = first.attr("w").toTensor().ne(second.attr("w").toTensor()).view({-1, 16384});
  CHECK(differs.sum(1).eq(1).all().item<bool>());
  CHECK(same(first.forward({x()}), {2, 3}));
  CHECK(same(second.forward({x()}), {2, 3}));
}

TEST_CASE("twins of a model without parameters are refused") {
  CHECK_THROWS(mme::models::make_twins(kit(), "echo", 1));
}
