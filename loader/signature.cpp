#include "loader/signature.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace mme::loader {
namespace {

/// Splits "x.key" when `text` begins with "x."; the part after the dot.
std::optional<std::string_view> member_of(std::string_view text, std::string_view name) {
  if (text.size() <= name.size() + 1 || !text.starts_with(name) || text[name.size()] != '.') return std::nullopt;
  return text.substr(name.size() + 1);
}

bool is_collection(ArgumentKind kind) {
  return kind == ArgumentKind::tensor_list || kind == ArgumentKind::tensor_dict;
}

bool is_number(DataType type) {
  return type != DataType::bytes && type != DataType::boolean;
}
bool is_integer(DataType type) {
  return is_number(type) && type != DataType::fp16 && type != DataType::bf16 && type != DataType::fp32 &&
         type != DataType::fp64;
}

/// What is wrong with filling an argument of this kind with that tensor; empty when nothing is.
std::string_view mismatch(ArgumentKind kind, const Tensor& tensor) {
  switch (kind) {
    case ArgumentKind::tensor:
    case ArgumentKind::tensor_list:
    case ArgumentKind::tensor_dict:
      return tensor.type() == DataType::bytes ? "takes a tensor of numbers, not BYTES" : "";
    case ArgumentKind::string_list: return tensor.type() == DataType::bytes ? "" : "takes BYTES";
    case ArgumentKind::string:
      return tensor.type() == DataType::bytes && tensor.count() == 1 ? "" : "takes BYTES with one element";
    case ArgumentKind::integer: return is_integer(tensor.type()) && tensor.count() == 1 ? "" : "takes one integer";
    case ArgumentKind::real: return is_number(tensor.type()) && tensor.count() == 1 ? "" : "takes one number";
    case ArgumentKind::boolean:
      return tensor.type() == DataType::boolean && tensor.count() == 1 ? "" : "takes one BOOL";
    case ArgumentKind::unsupported: return "has a type that a request cannot carry";
  }
  return "";
}

struct Match {
  std::size_t argument;
  std::string_view key;  ///< of a list or dict member; empty for a whole argument
};

std::optional<Match> match(const Signature& signature, std::string_view name) {
  for (std::size_t i = 0; i < signature.arguments.size(); ++i) {
    const Argument& argument = signature.arguments[i];
    const std::string positional = "INPUT__" + std::to_string(i);
    for (const std::string_view candidate : {std::string_view(argument.name), std::string_view(positional)}) {
      if (!is_collection(argument.kind)) {
        if (name == candidate) return Match{i, {}};
      } else if (const auto key = member_of(name, candidate)) {
        return Match{i, *key};
      }
    }
  }
  return std::nullopt;
}

std::string quoted(std::string_view name) {
  return "'" + std::string(name) + "'";
}

std::optional<Error> place(const Argument& argument, Bound& bound, std::size_t index, const NamedTensor& input,
                           std::string_view key) {
  const std::string_view problem = mismatch(argument.kind, input.tensor);
  if (!problem.empty()) {
    return fail(ErrorCode::invalid_tensor, "input " + quoted(input.name) + " " + std::string(problem));
  }
  const bool twice =
      is_collection(argument.kind) ? std::ranges::find(bound.keys, key) != bound.keys.end() : !bound.tensors.empty();
  if (twice) return fail(ErrorCode::invalid_tensor, "input " + quoted(input.name) + " is given twice");
  bound.tensors.push_back(index);
  bound.keys.emplace_back(key);
  return std::nullopt;
}

/// Puts the members of a list in order; they must be 0, 1, 2, ... as numbers without leading zeros.
std::optional<Error> order_list(const Argument& argument, Bound& bound) {
  std::vector<std::size_t> ordered(bound.tensors.size());
  for (std::size_t i = 0; i < bound.keys.size(); ++i) {
    std::size_t position = 0;
    const std::string& key = bound.keys[i];
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), position);
    if (error != std::errc() || end != key.data() + key.size() || position >= ordered.size() ||
        std::to_string(position) != key) {
      return fail(ErrorCode::invalid_tensor, "list input " + quoted(argument.name) +
                                                 " takes elements named 0, 1, 2, ... without a gap, not " +
                                                 quoted(key));
    }
    ordered[position] = bound.tensors[i];
  }
  bound.tensors = std::move(ordered);
  bound.keys.clear();
  return std::nullopt;
}

}  // namespace

Result<std::vector<Bound>> bind(const Signature& signature, const TensorMap& inputs) {
  std::vector<Bound> bounds(signature.arguments.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto found = match(signature, inputs[i].name);
    if (!found) return fail(ErrorCode::invalid_tensor, "the model has no input " + quoted(inputs[i].name));
    if (auto error = place(signature.arguments[found->argument], bounds[found->argument], i, inputs[i], found->key)) {
      return *error;
    }
  }
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const Argument& argument = signature.arguments[i];
    bounds[i].missing = bounds[i].tensors.empty();
    if (bounds[i].missing && !argument.optional) {
      return fail(ErrorCode::invalid_tensor, "input " + quoted(argument.name) + " is missing");
    }
    if (argument.kind == ArgumentKind::tensor_list) {
      if (auto error = order_list(argument, bounds[i])) return *error;
    } else if (argument.kind != ArgumentKind::tensor_dict) {
      bounds[i].keys.clear();
    }
  }
  return bounds;
}

std::vector<TensorInfo> describe_inputs(const Signature& signature) {
  std::vector<TensorInfo> inputs;
  for (const Argument& argument : signature.arguments) {
    TensorInfo info{argument.name, DataType::fp32, {-1}};
    switch (argument.kind) {
      case ArgumentKind::tensor:
      case ArgumentKind::tensor_list:
      case ArgumentKind::tensor_dict: break;
      case ArgumentKind::string: info.type = DataType::bytes, info.shape = {1}; break;
      case ArgumentKind::string_list: info.type = DataType::bytes; break;
      case ArgumentKind::integer: info.type = DataType::int64, info.shape = {1}; break;
      case ArgumentKind::real: info.type = DataType::fp64, info.shape = {1}; break;
      case ArgumentKind::boolean: info.type = DataType::boolean, info.shape = {1}; break;
      case ArgumentKind::unsupported: continue;
    }
    inputs.push_back(std::move(info));
  }
  return inputs;
}

}  // namespace mme::loader
