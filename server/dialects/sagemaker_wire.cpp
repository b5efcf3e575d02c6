#include "server/dialects/sagemaker_wire.hpp"

#include <algorithm>
#include <charconv>

#include "server/codecs/json_reader.hpp"
#include "server/codecs/json_writer.hpp"
#include "server/codecs/tensor_json.hpp"
#include "server/http/status.hpp"

namespace mme::server::sagemaker {
namespace {

using loader::NamedTensor;
using loader::TensorMap;

constexpr std::size_t kLargestPage = 100;
constexpr std::string_view kHex = "0123456789abcdef";

std::string make_token(std::string_view name) {
  std::string token;
  for (const char c : name) {
    token += kHex[static_cast<unsigned char>(c) >> 4U];
    token += kHex[static_cast<unsigned char>(c) & 15U];
  }
  return token;
}

std::optional<std::string> read_token(std::string_view token) {
  if (token.empty() || token.size() % 2 != 0) return std::nullopt;
  std::string name;
  for (std::size_t i = 0; i < token.size(); i += 2) {
    const std::size_t high = kHex.find(token[i]);
    const std::size_t low = kHex.find(token[i + 1]);
    if (high == kHex.npos || low == kHex.npos) return std::nullopt;
    name += static_cast<char>(high * 16 + low);
  }
  return name;
}

Result<std::size_t> read_limit(std::optional<std::string_view> text) {
  if (!text) return kLargestPage;
  std::size_t limit = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, limit);
  if (error == std::errc::result_out_of_range && stop == end) return kLargestPage;
  if (error != std::errc() || stop != end || limit == 0) {
    return fail(ErrorCode::invalid_request, "'limit' must be a number from 1 to 100");
  }
  return std::min(limit, kLargestPage);
}

std::optional<std::string> text_of(std::optional<std::string_view> view) {
  return view ? std::optional(std::string(*view)) : std::nullopt;
}

/// Names as the servers say them that this contract comes from.
std::string_view exception_type(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_request:
    case ErrorCode::invalid_tensor: return "BadRequestException";
    case ErrorCode::unauthorized: return "UnauthorizedException";
    case ErrorCode::forbidden: return "ForbiddenException";
    case ErrorCode::route_unknown: return "ResourceNotFoundException";
    case ErrorCode::method_not_allowed: return "MethodNotAllowedException";
    case ErrorCode::not_acceptable: return "NotAcceptableException";
    case ErrorCode::read_timeout: return "RequestTimeoutException";
    case ErrorCode::body_too_large:
    case ErrorCode::target_too_long:
    case ErrorCode::headers_too_large: return "RequestTooLargeException";
    case ErrorCode::media_type_unsupported: return "UnsupportedMediaTypeException";
    case ErrorCode::expectation_failed: return "ExpectationFailedException";
    case ErrorCode::method_not_implemented: return "NotImplementedException";
    case ErrorCode::version_not_supported: return "VersionNotSupportedException";
    case ErrorCode::model_unknown: return "ModelNotFoundException";
    case ErrorCode::already_loaded:
    case ErrorCode::conflict: return "ConflictStatusException";
    case ErrorCode::model_broken: return "InvalidModelException";
    case ErrorCode::inference_failed: return "PredictionException";
    case ErrorCode::queue_full: return "TooManyRequestsException";
    case ErrorCode::not_ready:
    case ErrorCode::settling:
    case ErrorCode::quarantined:
    case ErrorCode::shutting_down: return "ServiceUnavailableException";
    case ErrorCode::load_timeout:
    case ErrorCode::deadline_exceeded: return "GatewayTimeoutException";
    case ErrorCode::cannot_fit:
    case ErrorCode::all_in_use:
    case ErrorCode::activations: return "InsufficientMemoryException";
    case ErrorCode::storage_full: return "InsufficientStorageException";
    case ErrorCode::internal: return "InternalServerException";
  }
  return "InternalServerException";
}

void append_field(std::string& out, std::string_view key, std::string_view text) {
  append_key(out, key);
  append_string(out, text);
}

void append_identity(std::string& out, const ModelInfo& info) {
  append_field(out, "modelName", info.name);
  append_field(out, "modelUrl", info.url);
}

}  // namespace

Result<TensorMap> read_array(std::string_view body, std::optional<loader::DataType> type) {
  const auto document = JsonDocument::parse(body);
  if (document.has_error()) return document.error();
  auto tensor = read_shaped(document->root(), "the request", type);
  if (tensor.has_error()) return tensor.error();
  return TensorMap{NamedTensor{"INPUT__0", std::move(*tensor)}};
}

Result<std::string> write_outputs(const TensorMap& outputs, const Reserve& reserve) {
  std::string out;
  if (outputs.size() == 1) {
    auto written = write_nested(out, outputs.front().tensor, JsonStyle::python, reserve);
    if (written.has_error()) return written.error();
    return out;
  }
  out += '{';
  for (const NamedTensor& output : outputs) {
    if (out.size() > 1) out += ", ";
    append_string(out, output.name);
    out += ": ";
    auto written = write_nested(out, output.tensor, JsonStyle::python, reserve);
    if (written.has_error()) return written.error();
  }
  return out + "}";
}

Result<LoadRequest> read_load_request(const Request& request) {
  if (request.body.empty()) {
    const auto name = request.parameter("model_name");
    if (!name) return fail(ErrorCode::invalid_request, "the request names no model: it has no 'model_name'");
    return LoadRequest{std::string(*name), text_of(request.parameter("url"))};
  }
  const auto document = JsonDocument::parse(request.body);
  if (document.has_error()) return document.error();
  const auto object = JsonObject::read(document->root(), "the request");
  if (object.has_error()) return object.error();
  const auto name = object->string("model_name");
  if (name.has_error()) return name.error();
  const auto url = object->optional_string("url");
  if (url.has_error()) return url.error();
  return LoadRequest{std::string(*name), text_of(*url)};
}

Result<Page> page_of(std::vector<ModelInfo> models, std::optional<std::string_view> limit,
                     std::optional<std::string_view> token) {
  const auto size = read_limit(limit);
  if (size.has_error()) return size.error();
  std::ranges::stable_sort(models, {}, &ModelInfo::name);
  const auto same_name = [](const ModelInfo& a, const ModelInfo& b) { return a.name == b.name; };
  models.erase(std::unique(models.begin(), models.end(), same_name), models.end());
  auto first = models.begin();
  if (token) {
    const auto last_seen = read_token(*token);
    if (!last_seen) return fail(ErrorCode::invalid_request, "'next_page_token' is none that was given out here");
    first = std::ranges::upper_bound(models, *last_seen, {}, &ModelInfo::name);
  }
  const auto rest = static_cast<std::size_t>(models.end() - first);
  const auto last = first + static_cast<std::ptrdiff_t>(std::min(*size, rest));
  Page page{{first, last}, std::nullopt};
  if (last != models.end()) page.next = make_token(page.models.back().name);
  return page;
}

std::string write_page(const Page& page) {
  std::string out = R"({"models":[)";
  for (const ModelInfo& info : page.models) {
    if (out.back() != '[') out += ',';
    out += '{';
    append_identity(out, info);
    out += '}';
  }
  out += ']';
  if (page.next) append_field(out, "nextPageToken", *page.next);
  return out + "}";
}

std::string write_model(const ModelInfo& info) {
  std::string out = "{";
  append_identity(out, info);
  if (info.version) append_field(out, "modelVersion", *info.version);
  append_key(out, "memoryBytes");
  append_number(out, static_cast<std::uint64_t>(info.memory_bytes));
  append_key(out, "stateless");
  out += info.stateless ? "true" : "false";
  return out + "}";
}

std::string write_status(std::string_view status) {
  std::string out = "{";
  append_field(out, "status", status);
  return out + "}";
}

std::string write_error(const Error& error) {
  std::string out = "{";
  append_key(out, "code");
  append_number(out, static_cast<std::uint64_t>(http_status(error.code)));
  append_field(out, "type", exception_type(error.code));
  append_field(out, "message", error.message);
  return out + "}";
}

}  // namespace mme::server::sagemaker
