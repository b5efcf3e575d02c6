// Writing half of oip_v2_wire.
#include "server/codecs/json_reader.hpp"
#include "server/codecs/json_writer.hpp"
#include "server/codecs/tensor_json.hpp"
#include "server/dialects/oip_v2_wire.hpp"

namespace mme::server::oip {
namespace {

using loader::NamedTensor;
using loader::Tensor;
using loader::TensorInfo;
using loader::TensorMap;

void append_field(std::string& out, std::string_view key, std::string_view text) {
  append_key(out, key);
  append_string(out, text);
}

void append_shape(std::string& out, const loader::Shape& shape) {
  append_key(out, "shape");
  out += loader::to_string(shape);
}

Result<void> append_output(std::string& out, const std::string& name, const Tensor& tensor, const Reserve& reserve) {
  if (out.back() != '[') out += ',';
  out += '{';
  append_field(out, "name", name);
  append_field(out, "datatype", loader::to_string(tensor.type()));
  append_shape(out, tensor.shape());
  append_key(out, "data");
  if (auto written = write_flat(out, tensor, JsonStyle::protocol, reserve); written.has_error()) {
    return fail(written.error().code, written.error().message + ": output " + shown(name));
  }
  out += '}';
  return {};
}

Result<void> append_outputs(std::string& out, const std::vector<std::string>& wanted, const TensorMap& outputs,
                            const Reserve& reserve) {
  if (wanted.empty()) {
    for (const NamedTensor& output : outputs) {
      if (auto written = append_output(out, output.name, output.tensor, reserve); written.has_error()) return written;
    }
    return {};
  }
  for (const std::string& name : wanted) {
    const Tensor* tensor = loader::find(outputs, name);
    if (tensor == nullptr) return fail(ErrorCode::invalid_request, "the model has no output " + shown(name));
    if (auto written = append_output(out, name, *tensor, reserve); written.has_error()) return written;
  }
  return {};
}

void append_infos(std::string& out, std::string_view key, const std::vector<TensorInfo>& infos) {
  append_key(out, key);
  out += '[';
  for (const TensorInfo& info : infos) {
    if (out.back() != '[') out += ',';
    out += '{';
    append_field(out, "name", info.name);
    append_field(out, "datatype", loader::to_string(info.type));
    append_shape(out, info.shape);
    out += '}';
  }
  out += ']';
}

template <class Text>
void append_strings(std::string& out, std::string_view key, const std::vector<Text>& texts) {
  append_key(out, key);
  out += '[';
  for (const Text& text : texts) {
    if (out.back() != '[') out += ',';
    append_string(out, text);
  }
  out += ']';
}

struct IndexState {
  std::string_view state;
  std::string_view reason;
};

IndexState index_state(const ModelInfo& info) {
  switch (info.presence) {
    case Presence::stored: return {"UNAVAILABLE", "not in memory"};
    case Presence::loading: return {"LOADING", ""};
    case Presence::ready: return {"READY", ""};
    case Presence::draining: return {"UNLOADING", ""};
    case Presence::broken: return {"UNAVAILABLE", info.reason};
  }
  return {"UNKNOWN", ""};
}

}  // namespace

Result<std::string> write_infer_reply(const std::string& model_name, const std::optional<std::string>& version,
                                      const InferRequest& request, const TensorMap& outputs, const Reserve& reserve) {
  std::string out = "{";
  append_field(out, "model_name", model_name);
  if (version) append_field(out, "model_version", *version);
  if (request.id) append_field(out, "id", *request.id);
  append_key(out, "outputs");
  out += '[';
  if (auto written = append_outputs(out, request.outputs, outputs, reserve); written.has_error())
    return written.error();
  out += "]}";
  return out;
}

std::string write_server_metadata(std::string_view version, const std::vector<std::string_view>& extensions) {
  std::string out = "{";
  append_field(out, "name", "mme");
  append_field(out, "version", version);
  append_strings(out, "extensions", extensions);
  return out + "}";
}

std::string write_model_metadata(const ModelInfo& info) {
  std::string out = "{";
  append_field(out, "name", info.name);
  if (!info.versions.empty()) append_strings(out, "versions", info.versions);
  append_field(out, "platform", "pytorch_torchscript");
  const auto inputs = info.signature ? loader::describe_inputs(*info.signature) : std::vector<TensorInfo>();
  const auto outputs = info.signature ? info.signature->outputs : std::vector<TensorInfo>();
  append_infos(out, "inputs", info.declared_inputs.empty() ? inputs : info.declared_inputs);
  append_infos(out, "outputs", info.declared_outputs.empty() ? outputs : info.declared_outputs);
  return out + "}";
}

std::string write_model_ready(const std::string& model_name) {
  std::string out = "{";
  append_field(out, "name", model_name);
  append_key(out, "ready");
  return out + "true}";
}

std::string write_index(const std::vector<ModelInfo>& models, bool only_ready) {
  std::string out = "[";
  for (const ModelInfo& info : models) {
    if (only_ready && info.presence != Presence::ready) continue;
    const IndexState state = index_state(info);
    if (out.back() != '[') out += ',';
    out += '{';
    append_field(out, "name", info.name);
    if (info.version) append_field(out, "version", *info.version);
    append_field(out, "state", state.state);
    append_field(out, "reason", state.reason);
    out += '}';
  }
  return out + "]";
}

}  // namespace mme::server::oip
