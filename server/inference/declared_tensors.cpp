#include "server/inference/declared_tensors.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace mme::server {
namespace {

using loader::ErrorCode;
using loader::fail;
using loader::NamedTensor;

std::string positional(std::string_view kind, std::size_t index) {
  return std::string(kind) + "__" + std::to_string(index);
}

bool fits(const loader::Shape& declared, const loader::Shape& shape) {
  return declared.size() == shape.size() &&
         std::equal(declared.begin(), declared.end(), shape.begin(),
                    [](std::int64_t wanted, std::int64_t given) { return wanted < 0 || wanted == given; });
}

std::optional<loader::Error> mismatch(const TensorOptions& declared, const NamedTensor& input) {
  const std::string what = "input '" + input.name + "' takes ";
  if (declared.datatype && input.tensor.type() != *declared.datatype) {
    return fail(ErrorCode::invalid_tensor, what + std::string(loader::to_string(*declared.datatype)) + ", not " +
                                               std::string(loader::to_string(input.tensor.type())));
  }
  if (declared.shape && !fits(*declared.shape, input.tensor.shape())) {
    return fail(ErrorCode::invalid_tensor, what + "the shape " + loader::to_string(*declared.shape) + ", not " +
                                               loader::to_string(input.tensor.shape()));
  }
  return std::nullopt;
}

}  // namespace

loader::Result<void> bind_declared(const std::vector<TensorOptions>& declared, loader::TensorMap& inputs) {
  if (declared.empty()) return {};
  for (auto& input : inputs) {
    for (std::size_t i = 0; i < declared.size(); ++i) {
      const std::string name = positional("INPUT", i);
      if (input.name != declared[i].name && input.name != name) continue;
      if (auto error = mismatch(declared[i], input)) return *error;
      input.name = name;
      break;
    }
  }
  return {};
}

void name_outputs(const std::vector<TensorOptions>& declared, loader::TensorMap& outputs) {
  for (auto& output : outputs) {
    for (std::size_t i = 0; i < declared.size(); ++i) {
      if (output.name != positional("OUTPUT", i)) continue;
      output.name = declared[i].name;
      break;
    }
  }
}

std::vector<loader::TensorInfo> with_declared(std::vector<loader::TensorInfo> known,
                                              const std::vector<TensorOptions>& declared) {
  if (known.size() < declared.size()) known.resize(declared.size());
  for (std::size_t i = 0; i < declared.size(); ++i) {
    known[i].name = declared[i].name;
    if (declared[i].datatype) known[i].type = *declared[i].datatype;
    if (declared[i].shape) known[i].shape = *declared[i].shape;
  }
  return known;
}

}  // namespace mme::server
