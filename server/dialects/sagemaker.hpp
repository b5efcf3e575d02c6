// The SageMaker container contract: ping, invocations, and the multi-model calls on /models.
// Routes and order of events only; bodies are sagemaker_wire's, models are the ModelService's.
#pragma once

#include <string_view>
#include <vector>

#include "server/dialects/inference_call.hpp"
#include "server/http/router.hpp"
#include "server/inference/model_service.hpp"

namespace mme::server {

struct SageMakerOptions {
  /// What /invocations runs when a request names no model; nullopt: the only one there is.
  std::optional<std::string> default_model = std::nullopt;
  Aside aside = {};  ///< where large bodies are read and written
};

/// Stateless; handlers may run on any io thread, several at once. The service must outlive it.
class SageMaker final : public Dialect {
 public:
  explicit SageMaker(ModelService& service, SageMakerOptions options = {})
      : service_(service), options_(std::move(options)), calls_(service, options_.aside) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "sagemaker"; }
  [[nodiscard]] std::vector<Route> routes() override;
  /// {"code", "type", "message"}
  [[nodiscard]] Reply error_reply(const Error& error) const override;

 private:
  Reply ping(Exchange& exchange);
  Reply list(Exchange& exchange);
  Reply describe(Exchange& exchange);
  asio::awaitable<Reply> invocations(Exchange& exchange);
  asio::awaitable<Reply> invoke(Exchange& exchange);
  asio::awaitable<Reply> load(Exchange& exchange);
  asio::awaitable<Reply> unload(Exchange& exchange);

  /// Runs `model` on the body: a bare JSON array, or an Open Inference Protocol request, answered in kind.
  asio::awaitable<Reply> run(Exchange& exchange, ModelRef model);
  asio::awaitable<Reply> run_array(Exchange& exchange, ModelRef model);
  /// The model of an /invocations call: ?model_name=, else the target-model header, else the only model there is.
  Result<ModelRef> target(const Request& request);
  Result<ModelRef> only_model();
  Handler at_once_by(Reply (SageMaker::*member)(Exchange&));
  Handler by(asio::awaitable<Reply> (SageMaker::*member)(Exchange&));

  ModelService& service_;
  SageMakerOptions options_;
  InferenceCalls calls_;
};

}  // namespace mme::server
