#include "server/dialects/sagemaker.hpp"

#include <array>

#include "server/codecs/json_reader.hpp"
#include "server/codecs/media_type.hpp"
#include "server/dialects/oip_v2.hpp"
#include "server/dialects/respond.hpp"
#include "server/dialects/sagemaker_wire.hpp"
#include "server/http/reply.hpp"
#include "server/http/status.hpp"

namespace mme::server {

std::vector<Route> SageMaker::routes() {
  using enum Method;
  using enum Access;
  return {
      {get, "/ping", open, at_once_by(&SageMaker::ping)},
      {post, "/invocations", open, by(&SageMaker::invocations)},
      {get, "/models", open, at_once_by(&SageMaker::list)},
      {post, "/models", admin, by(&SageMaker::load)},
      {get, "/models/{m}", open, at_once_by(&SageMaker::describe)},
      {del, "/models/{m}", admin, by(&SageMaker::unload)},
      {post, "/models/{m}/invoke", open, by(&SageMaker::invoke)},
  };
}

namespace {

constexpr std::string_view kJson = "application/json";

/// Why a body of this type cannot be read or answered; the checks before any work.
std::optional<Error> unusable(const Request& request) {
  const std::string_view type = without_parameters(request.header("Content-Type").value_or(kJson));
  if (!type.empty() && !same_type(type, kJson)) {
    return fail(ErrorCode::media_type_unsupported, "Content-Type " + shown(type) + " is not application/json");
  }
  if (accept_quality(request.header("Accept").value_or(""), kJson) == 0) {
    return fail(ErrorCode::not_acceptable, "replies are application/json, which Accept does not allow");
  }
  return std::nullopt;
}

bool is_object(std::string_view body) {
  const std::size_t first = body.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && body[first] == '{';
}

std::optional<std::string_view> target_header(const Request& request) {
  if (const auto value = request.header("X-Amzn-SageMaker-Target-Model")) return value;
  return request.header("X-Amzn-Target-Model");
}

/// "a/b.tar.gz" without what artifacts end in; nullopt when it ends in none of that.
std::optional<std::string_view> without_suffix(std::string_view name) {
  for (const std::string_view suffix : std::array<std::string_view, 3>{".tar.gz", ".pt", ".pth"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return std::nullopt;
}

}  // namespace

Handler SageMaker::at_once_by(Reply (SageMaker::*member)(Exchange&)) {
  return [this, member](Exchange& exchange) { return at_once((this->*member)(exchange)); };
}

Handler SageMaker::by(asio::awaitable<Reply> (SageMaker::*member)(Exchange&)) {
  return [this, member](Exchange& exchange) { return (this->*member)(exchange); };
}

Reply SageMaker::error_reply(const Error& error) const {
  Reply reply = json_reply(sagemaker::write_error(error));
  reply.status = http_status(error.code);
  annotate(reply, error.code);
  return reply;
}

Reply SageMaker::ping(Exchange& exchange) {
  if (service_.accepting()) return empty_reply();
  if (service_.draining()) {
    return refuse(*this, exchange, fail(ErrorCode::shutting_down, "the server is shutting down"));
  }
  return refuse(*this, exchange, fail(ErrorCode::not_ready, "the model is not loaded yet"));
}

Reply SageMaker::list(Exchange& exchange) {
  const Request& request = exchange.request;
  const auto page =
      sagemaker::page_of(service_.in_memory(), request.parameter("limit"), request.parameter("next_page_token"));
  if (page.has_error()) return refuse(*this, exchange, page.error());
  return json_reply(sagemaker::write_page(*page));
}

Reply SageMaker::describe(Exchange& exchange) {
  const auto model = model_ref(exchange.parameters);
  if (model.has_error()) return refuse(*this, exchange, model.error());
  const auto info = service_.describe(*model);
  if (info.has_error()) return refuse(*this, exchange, info.error());
  exchange.record.model = model->name;
  if (info->presence == Presence::ready) return json_reply(sagemaker::write_model(*info));
  return refuse(*this, exchange, fail(ErrorCode::model_unknown, "the model is not in memory"));
}

asio::awaitable<Reply> SageMaker::invocations(Exchange& exchange) {
  auto model = target(exchange.request);
  if (model.has_error()) co_return refuse(*this, exchange, model.error());
  co_return co_await run(exchange, std::move(*model));
}

asio::awaitable<Reply> SageMaker::invoke(Exchange& exchange) {
  auto model = model_ref(exchange.parameters);
  if (model.has_error()) co_return refuse(*this, exchange, model.error());
  co_return co_await run(exchange, std::move(*model));
}

asio::awaitable<Reply> SageMaker::run(Exchange& exchange, ModelRef model) {
  if (const auto error = unusable(exchange.request)) co_return refuse(*this, exchange, *error);
  if (!is_object(exchange.request.body)) co_return co_await run_array(exchange, std::move(model));
  co_return co_await calls_.run(*this, exchange, std::move(model), oip_json_wire());
}

asio::awaitable<Reply> SageMaker::run_array(Exchange& exchange, ModelRef model) {
  InferenceWire wire;
  wire.read = [type = service_.first_input_type(model)](std::string_view body) -> Result<oip::InferRequest> {
    auto inputs = sagemaker::read_array(body, type);
    if (!inputs) return inputs.error();
    oip::InferRequest request;
    request.inputs = std::move(*inputs);
    return request;
  };
  wire.write = [](const ModelRef&, const oip::InferRequest&, const InferenceResult& result, const Reserve& reserve) {
    return sagemaker::write_outputs(result.outputs, reserve);
  };
  co_return co_await calls_.run(*this, exchange, std::move(model), wire);
}

Result<ModelRef> SageMaker::target(const Request& request) {
  if (const auto name = request.parameter("model_name")) return model_ref(std::string(*name));
  const auto header = target_header(request);
  if (!header) return only_model();
  auto exact = model_ref(std::string(*header));
  const auto shorter = without_suffix(*header);
  if (!shorter || (exact.has_value() && service_.describe(*exact).has_value())) return exact;
  return model_ref(std::string(*shorter));
}

Result<ModelRef> SageMaker::only_model() {
  if (options_.default_model) return ModelRef{*options_.default_model, std::nullopt};
  const auto models = service_.index();
  if (models.empty()) return fail(ErrorCode::invalid_request, "there is no model to invoke");
  for (const ModelInfo& info : models) {
    if (info.name != models.front().name) {
      return fail(ErrorCode::invalid_request,
                  "there are several models: name one by ?model_name= or by the header "
                  "X-Amzn-SageMaker-Target-Model");
    }
  }
  return ModelRef{models.front().name, std::nullopt};
}

asio::awaitable<Reply> SageMaker::load(Exchange& exchange) {
  const auto request = sagemaker::read_load_request(exchange.request);
  if (request.has_error()) co_return refuse(*this, exchange, request.error());
  const auto model = model_ref(request->model_name);
  if (model.has_error()) co_return refuse(*this, exchange, model.error());
  const auto info = co_await service_.load(*model, request->url, exchange.request.deadline);
  if (info.has_error()) co_return refuse(*this, exchange, info.error());
  exchange.record.model = model->name;
  co_return json_reply(sagemaker::write_status("Model \"" + model->name + "\" loaded"));
}

asio::awaitable<Reply> SageMaker::unload(Exchange& exchange) {
  const auto model = model_ref(exchange.parameters);
  if (model.has_error()) co_return refuse(*this, exchange, model.error());
  const auto done = co_await service_.unload(*model, exchange.request.deadline);
  if (done.has_error()) co_return refuse(*this, exchange, done.error());
  exchange.record.model = model->name;
  co_return json_reply(sagemaker::write_status("Model \"" + model->name + "\" unloaded"));
}

}  // namespace mme::server
