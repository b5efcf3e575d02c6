// Reading half of oip_v2_wire.
#include <algorithm>

#include "server/codecs/json_reader.hpp"
#include "server/codecs/tensor_json.hpp"
#include "server/dialects/oip_v2_wire.hpp"

namespace mme::server::oip {
namespace {

using loader::DataType;
using loader::NamedTensor;
using loader::Shape;

constexpr std::size_t kLongestTensorName = 256;

/// A parameter that would change the answer in a way not offered here.
struct Refusal {
  std::string_view key;  ///< a trailing '*' stands for any rest
  std::string_view what;
};

bool matches(std::string_view pattern, std::string_view key) {
  return pattern.ends_with('*') ? key.starts_with(pattern.substr(0, pattern.size() - 1)) : key == pattern;
}

bool is_false(JsonValue value) {
  return value.is_bool() && !value.get_bool().value_unsafe();
}

/// The `parameters` of an object, if any: checked types, refused keys. Flags that are false ask for nothing.
Result<std::optional<JsonObject>> read_parameters(const JsonObject& owner, std::initializer_list<Refusal> refusals) {
  const auto given = owner.find("parameters");
  if (!given) return std::optional<JsonObject>();
  auto parameters = JsonObject::read(*given, "'parameters' of " + owner.where());
  if (parameters.has_error()) return parameters.error();
  for (const JsonObject::Field& field : parameters->fields()) {
    const JsonValue value = field.value;
    if (!value.is_string() && !value.is_bool() && !value.is_number()) {
      return fail(ErrorCode::invalid_request, "the parameter " + shown(field.key) + " of " + owner.where() +
                                                  " must be a string, a number or a boolean");
    }
    const auto refused =
        std::ranges::find_if(refusals, [&](const Refusal& refusal) { return matches(refusal.key, field.key); });
    if (refused != refusals.end() && !is_false(value)) {
      return fail(ErrorCode::invalid_request, std::string(refused->what) + " not offered here: parameter " +
                                                  shown(field.key) + " of " + owner.where());
    }
  }
  return std::optional(std::move(*parameters));
}

Result<std::string> read_name(const JsonObject& object) {
  const auto name = object.string("name");
  if (name.has_error()) return name.error();
  const bool plain = std::ranges::none_of(*name, [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; });
  if (name->empty() || name->size() > kLongestTensorName || !plain) {
    return fail(ErrorCode::invalid_request, "'name' of " + object.where() + " must be 1 to 256 printable bytes");
  }
  return std::string(*name);
}

Result<Shape> read_shape(const JsonObject& input) {
  const auto value = input.require("shape");
  if (value.has_error()) return value.error();
  const Error error =
      fail(ErrorCode::invalid_tensor, "'shape' of " + input.where() + " must be an array of at most " +
                                          std::to_string(kMostDimensions) + " integers that are not negative");
  simdjson::dom::array array;
  if (value->get(array) != simdjson::SUCCESS || array.size() > kMostDimensions) return error;
  Shape shape;
  for (const JsonValue dimension : array) {
    std::int64_t size = 0;
    if (dimension.get(size) != simdjson::SUCCESS || size < 0) return error;
    shape.push_back(size);
  }
  return shape;
}

Result<DataType> read_data_type(const JsonObject& input) {
  const auto name = input.string("datatype");
  if (name.has_error()) return name.error();
  const auto type = loader::parse_data_type(*name);
  if (type) return *type;
  return fail(ErrorCode::invalid_tensor, input.where() + " has the unknown datatype " + shown(*name));
}

Result<NamedTensor> read_input(JsonValue value) {
  auto input = JsonObject::read(value, "an input");
  if (input.has_error()) return input.error();
  auto name = read_name(*input);
  if (name.has_error()) return name.error();
  const std::string what = "input " + shown(*name);
  input->rename(what);
  const auto parameters =
      read_parameters(*input, {{"shared_memory_*", "shared memory is"}, {"binary_data_size", "binary tensor data is"}});
  if (parameters.has_error()) return parameters.error();
  auto shape = read_shape(*input);
  if (shape.has_error()) return shape.error();
  const auto type = read_data_type(*input);
  if (type.has_error()) return type.error();
  const auto data = input->require("data");
  if (data.has_error()) return data.error();
  auto tensor = read_tensor(*data, *type, std::move(*shape), what);
  if (tensor.has_error()) return tensor.error();
  return NamedTensor{std::move(*name), std::move(*tensor)};
}

Result<std::string> read_output(JsonValue value) {
  auto output = JsonObject::read(value, "a requested output");
  if (output.has_error()) return output.error();
  auto name = read_name(*output);
  if (name.has_error()) return name;
  output->rename("output " + shown(*name));
  const auto parameters = read_parameters(*output, {{"shared_memory_*", "shared memory is"},
                                                    {"classification", "classification is"},
                                                    {"binary_data", "binary tensor data is"}});
  if (parameters.has_error()) return parameters.error();
  return name;
}

/// The items of an array field, each read by `read`.
template <class T>
Result<std::vector<T>> read_list(JsonValue value, std::string_view field, Result<T> (*read)(JsonValue)) {
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) {
    return fail(ErrorCode::invalid_request,
                "'" + std::string(field) + "' must be an array, not " + std::string(kind_of(value)));
  }
  if (array.size() > kMostTensors) {
    return fail(ErrorCode::invalid_request,
                "'" + std::string(field) + "' has more than " + std::to_string(kMostTensors) + " entries");
  }
  std::vector<T> items;
  for (const JsonValue item : array) {
    auto result = read(item);
    if (result.has_error()) return result.error();
    items.push_back(std::move(*result));
  }
  return items;
}

std::optional<Error> find_twice(std::vector<std::string> names, std::string_view what) {
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return std::nullopt;
  return fail(ErrorCode::invalid_request, std::string(what) + " " + shown(*twice) + " is given twice");
}

Result<std::optional<std::chrono::microseconds>> read_timeout(const JsonObject& request) {
  std::optional<std::chrono::microseconds> timeout;
  const auto parameters = read_parameters(
      request, {{"shared_memory_*", "shared memory is"}, {"binary_data_output", "binary tensor data is"}});
  if (parameters.has_error()) return parameters.error();
  if (!*parameters) return timeout;
  const auto value = (*parameters)->find("timeout");
  if (!value) return timeout;
  std::int64_t count = 0;
  if (value->get(count) != simdjson::SUCCESS || count < 0) {
    return fail(ErrorCode::invalid_request, "the parameter 'timeout' must be a number of whole microseconds");
  }
  if (count > 0) timeout = std::chrono::microseconds(count);
  return timeout;
}

Result<void> read_tensors(const JsonObject& object, InferRequest& request) {
  const auto inputs = object.require("inputs");
  if (inputs.has_error()) return inputs.error();
  auto tensors = read_list<NamedTensor>(*inputs, "inputs", &read_input);
  if (tensors.has_error()) return tensors.error();
  request.inputs = std::move(*tensors);
  std::vector<std::string> names;
  for (const NamedTensor& input : request.inputs) names.push_back(input.name);
  if (auto error = find_twice(std::move(names), "input")) return *error;

  const auto outputs = object.find("outputs");
  if (!outputs) return {};
  auto wanted = read_list<std::string>(*outputs, "outputs", &read_output);
  if (wanted.has_error()) return wanted.error();
  request.outputs = std::move(*wanted);
  if (auto error = find_twice(request.outputs, "output")) return *error;
  return {};
}

Result<JsonObject> read_fields(const Result<JsonDocument>& document) {
  if (document.has_error()) return document.error();
  return JsonObject::read(document->root(), "the request");
}

/// A body that may be left out and may hold nothing but parameters, none of them the refused ones.
Result<void> check_parameters(std::string_view body, std::initializer_list<Refusal> refusals) {
  if (body.empty()) return {};
  const auto document = JsonDocument::parse(body);
  const auto object = read_fields(document);
  if (object.has_error()) return object.error();
  if (const auto parameters = read_parameters(*object, refusals); parameters.has_error()) return parameters.error();
  return {};
}

}  // namespace

Result<InferRequest> read_infer_request(std::string_view body) {
  const auto document = JsonDocument::parse(body);
  const auto object = read_fields(document);
  if (object.has_error()) return object.error();
  InferRequest request;
  const auto id = object->optional_string("id");
  if (id.has_error()) return id.error();
  if (*id) request.id = std::string(**id);
  const auto timeout = read_timeout(*object);
  if (timeout.has_error()) return timeout.error();
  request.timeout = *timeout;
  if (const auto read = read_tensors(*object, request); read.has_error()) return read.error();
  return request;
}

Deadline deadline_of(const InferRequest& request, Deadline deadline) {
  // A time-out beyond this is none; it also keeps the sum below within the clock's range.
  constexpr std::chrono::hours kLongest{24};
  if (!request.timeout || *request.timeout > kLongest) return deadline;
  return std::min(deadline, loader::Clock::now() + *request.timeout);
}

Result<bool> read_index_request(std::string_view body) {
  if (body.empty()) return false;
  const auto document = JsonDocument::parse(body);
  const auto object = read_fields(document);
  if (object.has_error()) return object.error();
  const auto ready = object->optional_boolean("ready");
  if (ready.has_error()) return ready.error();
  return ready->value_or(false);
}

Result<void> check_load_request(std::string_view body) {
  return check_parameters(
      body, {{"config", "overriding a model's configuration is"}, {"file:*", "sending a model's files is"}});
}

Result<void> check_unload_request(std::string_view body) {
  return check_parameters(body, {});
}

}  // namespace mme::server::oip
