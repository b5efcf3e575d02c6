// What goes into a model and what comes out, for each kind of value; and what a model that raises looks like.
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/torch/torch_support.hpp"

namespace mme::test {
namespace {

using loader::DataType;
using loader::ErrorCode;
using loader::Shape;
using loader::TensorMap;

const TensorMap pair{{"x", floats({2}, {1, 2})}};

loader::Result<TensorMap> run(const std::string& source, const TensorMap& inputs) {
  ModelDirectory directory;
  return call(*load(directory.script(source)), inputs);
}

loader::Error error_of(const std::string& source, const TensorMap& inputs = pair) {
  const auto result = run(source, inputs);
  REQUIRE(!result);
  return result.error();
}

TensorMap outputs_of(const std::string& source, const TensorMap& inputs = pair) {
  const auto result = run(source, inputs);
  if (!result) FAIL(result.error().message);
  return *result;
}

}  // namespace

TEST_CASE("a tensor goes in and comes out under OUTPUT__0") {
  const auto outputs = outputs_of("def forward(self, x):\n  return x + 1\n");
  REQUIRE(names_of(outputs) == std::vector<std::string>{"OUTPUT__0"});
  CHECK(outputs[0].tensor.shape() == Shape{2});
  CHECK(values_of(outputs[0].tensor) == std::vector<float>{2, 3});
}

TEST_CASE("every type of tensor comes back as it went in, exactly") {
  ModelDirectory directory;
  const auto model = load(directory.script("def forward(self, x):\n  return x.clone()\n"));
  const auto type = GENERATE(DataType::boolean, DataType::uint8, DataType::int8, DataType::int16, DataType::int32,
                             DataType::int64, DataType::fp16, DataType::bf16, DataType::fp32, DataType::fp64);
  std::vector<std::uint8_t> bytes(3 * element_size(type));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = type == DataType::boolean ? i % 2 : static_cast<std::uint8_t>(i);
  const auto given = loader::Tensor::take<std::uint8_t>(type, {3, 1}, bytes).value();
  const auto outputs = call(*model, {{"x", given}}).value();
  CHECK(outputs[0].tensor.type() == type);
  CHECK(outputs[0].tensor.shape() == Shape{3, 1});
  CHECK(elements<std::uint8_t>(outputs[0].tensor) == bytes);
}

TEST_CASE("a type that libtorch has no tensors of is refused by name") {
  const auto given = loader::Tensor::take<std::uint16_t>(DataType::uint16, {1}, {1}).value();
  const auto error = error_of("def forward(self, x):\n  return x\n", {{"x", given}});
  CHECK(error.code == ErrorCode::invalid_tensor);
  CHECK(error.message.find("UINT16") != std::string::npos);
}

TEST_CASE("a tensor without elements may have no memory") {
  const auto nothing = loader::Tensor::wrap(DataType::fp32, {0, 64}, nullptr, nullptr, 0).value();
  const auto outputs = outputs_of("def forward(self, x):\n  return x * 2\n", {{"x", nothing}});
  CHECK(outputs[0].tensor.shape() == Shape{0, 64});
}

TEST_CASE("bytes that are not aligned are copied, not misread") {
  auto bytes = std::make_shared<std::vector<std::byte>>(9);
  const float value = 2.5F;
  std::memcpy(bytes->data() + 1, &value, 4);
  std::memcpy(bytes->data() + 5, &value, 4);
  const auto odd = loader::Tensor::wrap(DataType::fp32, {2}, bytes, bytes->data() + 1, 8).value();
  CHECK(values_of(outputs_of("def forward(self, x):\n  return x + x\n", {{"x", odd}})[0].tensor) ==
        std::vector<float>{5, 5});
}

TEST_CASE("tuples, lists and dicts are named by position and key, nested ones with dots") {
  CHECK(names_of(outputs_of("def forward(self, x):\n  return (x, x + 1)\n")) ==
        std::vector<std::string>{"OUTPUT__0", "OUTPUT__1"});
  CHECK(names_of(outputs_of("def forward(self, x):\n  return [x, x + 1]\n")) ==
        std::vector<std::string>{"OUTPUT__0", "OUTPUT__1"});
  CHECK(names_of(outputs_of("def forward(self, x):\n  return {'b': x, 'a': x + 1}\n")) ==
        std::vector<std::string>{"b", "a"});
  CHECK(names_of(outputs_of("def forward(self, x) -> Dict[str, Tuple[Tensor, List[Tensor]]]:\n"
                            "  return {'k': (x, [x + 1])}\n")) == std::vector<std::string>{"k.0", "k.1.0"});
  CHECK(names_of(outputs_of("def forward(self, x):\n  return (x, {'a': x})\n")) ==
        std::vector<std::string>{"OUTPUT__0", "OUTPUT__1.a"});
}

TEST_CASE("two outputs that would have one name are refused") {
  const auto error = error_of("def forward(self, x):\n  return {'k': {'a.b': x}, 'k.a': {'b': x}}\n");
  CHECK(error.code == ErrorCode::inference_failed);
}

TEST_CASE("text and numbers are tensors with one element") {
  const auto text = outputs_of("def forward(self, x):\n  return 'h\xc3\xa9'\n")[0].tensor;
  CHECK(text.shape() == Shape{1});
  CHECK(text.strings()[0] == "h\xc3\xa9");
  const auto number = outputs_of("def forward(self, x):\n  return x.numel()\n")[0].tensor;
  CHECK(elements<std::int64_t>(number) == std::vector<std::int64_t>{2});
  const auto real = outputs_of("def forward(self, x):\n  return 0.5\n")[0].tensor;
  CHECK(elements<double>(real) == std::vector<double>{0.5});
  const auto flag = outputs_of("def forward(self, x):\n  return x.numel() == 2\n")[0].tensor;
  CHECK(flag.type() == DataType::boolean);
  CHECK(elements<std::uint8_t>(flag) == std::vector<std::uint8_t>{1});
}

TEST_CASE("lists of text and numbers are one tensor") {
  const auto list = outputs_of("def forward(self, x):\n  return ['a', 'b']\n")[0].tensor;
  CHECK(list.shape() == Shape{2});
  CHECK(list.strings()[1] == "b");
  CHECK(elements<std::int64_t>(outputs_of("def forward(self, x):\n  return [3, 4, 5]\n")[0].tensor) ==
        std::vector<std::int64_t>{3, 4, 5});
  const auto flags = outputs_of("def forward(self, x):\n  return [True, False]\n");
  CHECK(elements<std::uint8_t>(flags[0].tensor) == std::vector<std::uint8_t>{1, 0});
}

TEST_CASE("what a reply cannot carry is refused by its type's name") {
  const auto names = [](const std::string& body, const std::string& type) {
    const auto error = error_of("def forward(self, x):\n  " + body + "\n");
    CHECK(error.code == ErrorCode::inference_failed);
    INFO(error.message);
    CHECK(error.message.find(type) != std::string::npos);
  };
  names("return None", "None");
  names("return (x, None)", "None");
  names("return torch.complex(x, x)", "Complex");
  names("return x.to_sparse()", "Sparse");
  names("return torch.quantize_per_tensor(x, 0.1, 0, 13)", "quantized");
}

TEST_CASE("views that are transposed or negated arrive dense") {
  const TensorMap square{{"x", floats({2, 2}, {1, 2, 3, 4})}};
  CHECK(values_of(outputs_of("def forward(self, x):\n  return x.t()\n", square)[0].tensor) ==
        std::vector<float>{1, 3, 2, 4});
  CHECK(values_of(outputs_of("def forward(self, x):\n  return torch.complex(x, x).conj().imag\n", square)[0].tensor) ==
        std::vector<float>{-1, -2, -3, -4});
}

TEST_CASE("arguments of every kind are filled by name") {
  const auto outputs = outputs_of(
      "def forward(self, s: str, l: List[str], i: int, f: float, b: bool, t: List[Tensor], d: Dict[str, Tensor]):\n"
      "  return [s, l[1], str(i), str(f), str(b), str(len(t)), str(float(d['k'].sum()))]\n",
      {{"s", texts({"a"})},
       {"l", texts({"b", "c"})},
       {"i", integers({1}, {7})},
       {"f", floats({1}, {0.5})},
       {"b", loader::Tensor::take<std::uint8_t>(DataType::boolean, {1}, {1}).value()},
       {"t.1", floats({1}, {1})},
       {"t.0", floats({1}, {1})},
       {"d.k", floats({2}, {1, 2})}});
  const auto strings = outputs[0].tensor.strings();
  CHECK(std::vector<std::string>(strings.begin(), strings.end()) ==
        std::vector<std::string>{"a", "c", "7", "0.5", "True", "2", "3."});
}

TEST_CASE("arguments with a default, or that may be None, can be left out") {
  const std::string source =
      "def forward(self, x, n: int = 3, y: Optional[Tensor] = None):\n"
      "  if y is not None:\n    return y\n  return x * n\n";
  CHECK(values_of(outputs_of(source)[0].tensor) == std::vector<float>{3, 6});
  CHECK(values_of(outputs_of(source, {{"x", floats({1}, {1})}, {"y", floats({1}, {9})}})[0].tensor) ==
        std::vector<float>{9});
}

TEST_CASE("a model that raises says its own message, in one line") {
  const auto raised = error_of("def forward(self, x):\n  assert False, 'boom'\n");
  CHECK(raised.code == ErrorCode::inference_failed);
  CHECK(raised.message == "AssertionError: boom");
  const auto shapes = error_of("def forward(self, x):\n  return torch.mm(x, x)\n");
  CHECK(shapes.code == ErrorCode::inference_failed);
  CHECK(shapes.message.find('\n') == std::string::npos);
  CHECK(shapes.message.find("matri") != std::string::npos);
  const auto path = error_of("def forward(self, x):\n  assert False, 'no /etc/some/file here'\n");
  CHECK(path.message == "AssertionError: no ... here");
}

TEST_CASE("the request's bytes are not written to, whatever the model does") {
  const auto given = floats({2}, {1, 2});
  const auto outputs = outputs_of("def forward(self, x):\n  x.add_(1)\n  return x\n", {{"x", given}});
  CHECK(values_of(outputs[0].tensor) == std::vector<float>{2, 3});
  CHECK(values_of(given) == std::vector<float>{1, 2});
}

TEST_CASE("an output outlives its model, also one that was a weight") {
  ModelDirectory directory;
  auto model = load(directory.save(
      ModuleBuilder().parameter("w", {4}).define("def forward(self, x):\n  return (self.w, self.w[1:], x, x + 1)\n")));
  const auto first = call(*model, pair).value();
  const auto second = call(*model, pair).value();
  CHECK(first[0].tensor.data().data() != second[0].tensor.data().data());
  model.reset();
  CHECK(values_of(first[0].tensor) == std::vector<float>{1, 1, 1, 1});
  CHECK(values_of(first[1].tensor) == std::vector<float>{1, 1, 1});
  CHECK(values_of(first[2].tensor) == std::vector<float>{1, 2});
  CHECK(values_of(first[3].tensor) == std::vector<float>{2, 3});
}

TEST_CASE("a stateless model answers several threads at once") {
  ModelDirectory directory;
  const auto model = load(directory.save(
      ModuleBuilder().identity("w", 2).define("def forward(self, x):\n  return torch.relu(x @ self.w)\n")));
  REQUIRE(model->stateless());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto value = static_cast<float>(t * 100 + i);
        const auto outputs = call(*model, {{"x", floats({1, 2}, {value, -value})}});
        if (!outputs || values_of((*outputs)[0].tensor) != std::vector<float>{value, 0}) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("operators with several out= tensors may be given temporaries, and any of the results may go unused") {
  const std::string body = GENERATE(
      "y = torch.topk(x, 1, values=torch.zeros([1]), indices=torch.zeros([1], dtype=4))\n  return y[0]",
      "y = torch.topk(x, 1, values=torch.zeros([1]), indices=torch.zeros([1], dtype=4))\n  return y[0] + 0 * y[1]",
      "v = torch.zeros([1])\n  y = torch.topk(x, 1, values=v, indices=torch.zeros([1], dtype=4))\n  return v",
      "y = torch.sort(x, 0, True, values=torch.zeros([2]), indices=torch.zeros([2], dtype=4))\n  return y[0][:1]",
      "y = torch.max(x, 0, max=torch.zeros([]), max_values=torch.zeros([], dtype=4))\n  return y[0].view([1])",
      "y = torch.aminmax(x, dim=0, keepdim=True, min=torch.zeros([1]), max=torch.zeros([1]))\n  return y[1]");
  CAPTURE(body);
  ModelDirectory directory;
  const auto model = load(directory.script("def forward(self, x):\n  " + body + "\n"));
  for (int i = 0; i < 10; ++i) {
    CHECK(values_of(call(*model, {{"x", floats({2}, {3, 7})}}).value()[0].tensor) == std::vector<float>{7});
  }
}

}  // namespace mme::test
