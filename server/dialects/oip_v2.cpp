#include "server/dialects/oip_v2.hpp"

#include "server/codecs/json_reader.hpp"
#include "server/codecs/media_type.hpp"
#include "server/dialects/oip_v2_wire.hpp"
#include "server/dialects/respond.hpp"
#include "server/http/reply.hpp"

namespace mme::server {

std::vector<Route> OipV2::routes() {
  using enum Method;
  using enum Access;
  return {
      {get, "/v2", open, at_once_by(&OipV2::server_metadata)},
      {get, "/v2/", open, at_once_by(&OipV2::server_metadata)},
      {get, "/v2/health/live", open, at_once_by(&OipV2::live)},
      {get, "/v2/health/ready", open, at_once_by(&OipV2::ready)},
      {get, "/v2/models/{m}", open, at_once_by(&OipV2::model_metadata)},
      {get, "/v2/models/{m}/versions/{v}", open, at_once_by(&OipV2::model_metadata)},
      {get, "/v2/models/{m}/ready", open, at_once_by(&OipV2::model_ready)},
      {get, "/v2/models/{m}/versions/{v}/ready", open, at_once_by(&OipV2::model_ready)},
      {post, "/v2/models/{m}/infer", open, by(&OipV2::infer)},
      {post, "/v2/models/{m}/versions/{v}/infer", open, by(&OipV2::infer)},
      {post, "/v2/repository/index", open, at_once_by(&OipV2::index)},
      {post, "/v2/repository/models/{m}/load", admin, by(&OipV2::load)},
      {post, "/v2/repository/models/{m}/unload", admin, by(&OipV2::unload)},
  };
}

namespace {

/// Clients of this protocol send JSON under many names, curl's default among them; what is surely something else is
/// refused.
std::optional<Error> unreadable(const Request& request) {
  if (request.header("Inference-Header-Content-Length")) {
    return fail(ErrorCode::media_type_unsupported, "binary tensor data is not offered here; send JSON");
  }
  const std::string_view type = without_parameters(request.header("Content-Type").value_or(""));
  if (type.empty() || same_type(type, "application/json") || same_type(type, "application/x-www-form-urlencoded")) {
    return std::nullopt;
  }
  return fail(ErrorCode::media_type_unsupported, "Content-Type " + shown(type) + " is not application/json");
}

}  // namespace

OipV2::OipV2(ModelService& service, OipOptions options)
    : service_(service), options_(std::move(options)), calls_(service, options_.aside) {}

const InferenceWire& oip_json_wire() {
  static const InferenceWire wire{&oip::read_infer_request, [](const ModelRef& model, const oip::InferRequest& request,
                                                               const InferenceResult& result, const Reserve& reserve) {
                                    return oip::write_infer_reply(model.name, result.version, request, result.outputs,
                                                                  reserve);
                                  }};
  return wire;
}

Handler OipV2::at_once_by(Reply (OipV2::*member)(Exchange&)) {
  return [this, member](Exchange& exchange) { return at_once((this->*member)(exchange)); };
}

Handler OipV2::by(asio::awaitable<Reply> (OipV2::*member)(Exchange&)) {
  return [this, member](Exchange& exchange) { return (this->*member)(exchange); };
}

Reply OipV2::error_reply(const Error& error) const {
  return neutral_error(error);
}

Reply OipV2::server_metadata(Exchange&) {
  std::vector<std::string_view> extensions;
  if (options_.offers_repository) extensions.emplace_back("model_repository");
  return json_reply(oip::write_server_metadata(options_.version, extensions));
}

Reply OipV2::live(Exchange&) {
  return json_reply(R"({"live":true})");
}

Reply OipV2::ready(Exchange& exchange) {
  if (service_.ready()) return json_reply(R"({"ready":true})");
  return refuse(*this, exchange, fail(ErrorCode::not_ready, "the server is not ready"));
}

Result<ModelInfo> OipV2::look_up(Exchange& exchange) {
  const auto model = model_ref(exchange.parameters);
  if (model.has_error()) return model.error();
  auto info = service_.describe(*model);
  if (info.has_value()) exchange.record.model = model->name;
  return info;
}

Reply OipV2::model_metadata(Exchange& exchange) {
  const auto info = look_up(exchange);
  if (info.has_error()) return refuse(*this, exchange, info.error());
  return json_reply(oip::write_model_metadata(*info));
}

Reply OipV2::model_ready(Exchange& exchange) {
  const auto info = look_up(exchange);
  if (info.has_error()) return refuse(*this, exchange, info.error());
  if (info->presence == Presence::broken) {
    return refuse(*this, exchange, fail(ErrorCode::not_ready, "the model cannot be served: " + info->reason));
  }
  return json_reply(oip::write_model_ready(info->name));
}

asio::awaitable<Reply> OipV2::infer(Exchange& exchange) {
  const auto model = model_ref(exchange.parameters);
  if (model.has_error()) co_return refuse(*this, exchange, model.error());
  if (const auto error = unreadable(exchange.request)) co_return refuse(*this, exchange, *error);
  co_return co_await calls_.run(*this, exchange, *model, oip_json_wire());
}

Reply OipV2::index(Exchange& exchange) {
  const auto only_ready = oip::read_index_request(exchange.request.body);
  if (only_ready.has_error()) return refuse(*this, exchange, only_ready.error());
  return json_reply(oip::write_index(service_.index(), *only_ready));
}

asio::awaitable<Reply> OipV2::load(Exchange& exchange) {
  const auto model = model_ref(exchange.parameters);
  if (model.has_error()) co_return refuse(*this, exchange, model.error());
  if (const auto body = oip::check_load_request(exchange.request.body); body.has_error()) {
    co_return refuse(*this, exchange, body.error());
  }
  const auto info = co_await service_.load(*model, std::nullopt, exchange.request.deadline);
  // In this protocol a load asks for a state, not for an act: a model that is there already is what was wanted.
  if (info.has_error() && info.error().code != ErrorCode::already_loaded) {
    co_return refuse(*this, exchange, info.error());
  }
  exchange.record.model = model->name;
  co_return empty_reply();
}

asio::awaitable<Reply> OipV2::unload(Exchange& exchange) {
  const auto model = model_ref(exchange.parameters);
  if (model.has_error()) co_return refuse(*this, exchange, model.error());
  if (const auto body = oip::check_unload_request(exchange.request.body); body.has_error()) {
    co_return refuse(*this, exchange, body.error());
  }
  const auto done = co_await service_.unload(*model, exchange.request.deadline);
  if (done.has_error()) co_return refuse(*this, exchange, done.error());
  exchange.record.model = model->name;
  co_return empty_reply();
}

}  // namespace mme::server
