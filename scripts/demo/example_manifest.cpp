// One line of the demo's manifest, as JSON.
// Only the dtypes and results that the examples have are spelled: FP32 and INT64, tensors, tuples and dictionaries.
#include "scripts/demo/example_manifest.hpp"

#include <charconv>
#include <stdexcept>

namespace mme::models {
namespace {

template <class Number>
void append_number(std::string& out, Number number) {
  char text[40];
  out.append(text, std::to_chars(text, text + sizeof text, number).ptr);
}

template <class Number>
void append_values(std::string& out, const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.contiguous().view({-1});
  const Number* values = flat.data_ptr<Number>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    if (i != 0) out += ',';
    append_number(out, values[i]);
  }
}

std::string data(const torch::Tensor& tensor) {
  std::string out = "[";
  if (tensor.scalar_type() == torch::kLong) {
    append_values<std::int64_t>(out, tensor);
  } else {
    append_values<float>(out, tensor.to(torch::kFloat));
  }
  return out + "]";
}

std::string shape(const torch::Tensor& tensor) {
  std::string out = "[";
  for (const std::int64_t extent : tensor.sizes()) out += (out.size() > 1 ? "," : "") + std::to_string(extent);
  return out + "]";
}

std::string request(const Example& example) {
  std::string inputs;
  for (const auto& [name, tensor] : example.inputs) {
    if (!inputs.empty()) inputs += ',';
    inputs += R"({"name":")" + name + R"(","shape":)" + shape(tensor) + R"(,"datatype":")" +
              (tensor.scalar_type() == torch::kLong ? "INT64" : "FP32") + R"(","data":)" + data(tensor) + "}";
  }
  return R"({"inputs":[)" + inputs + "]}";
}

std::vector<std::pair<std::string, torch::Tensor>> named_outputs(const c10::IValue& result) {
  if (result.isTensor()) return {{"", result.toTensor()}};
  std::vector<std::pair<std::string, torch::Tensor>> outputs;
  if (result.isTuple()) {
    for (const c10::IValue& element : result.toTupleRef().elements()) outputs.emplace_back("", element.toTensor());
  } else {
    for (const auto& item : result.toGenericDict()) {
      outputs.emplace_back(item.key().toStringRef(), item.value().toTensor());
    }
  }
  return outputs;
}

std::string answers(const Example& example) {
  torch::jit::Module module = example.module.deepcopy();  // a call must not change what is saved
  std::vector<c10::IValue> arguments;
  for (const auto& [name, tensor] : example.inputs) arguments.emplace_back(tensor);
  std::string out;
  for (const auto& [name, tensor] : named_outputs(module.forward(arguments))) {
    if (!torch::isfinite(tensor).all().item<bool>()) throw std::runtime_error(example.name + ": not finite");
    out += (out.empty() ? "" : ",") + (R"({"name":")" + name + R"(","data":)") + data(tensor) + "}";
  }
  return example.keeps_state ? "null" : "[" + out + "]";
}

}  // namespace

std::string manifest_entry(const Example& example, std::uintmax_t file_bytes) {
  return R"({"model":")" + example.name + R"(","about":")" + example.about + R"(","bytes":)" +
         std::to_string(file_bytes) + R"(,"request":)" + request(example) + R"(,"answers":)" + answers(example) + "}";
}

}  // namespace mme::models
