// The Open Inference Protocol v2 over REST, with its model repository extension.
// Routes and order of events only; bodies are oip_v2_wire's, models are the ModelService's.
#pragma once

#include <string>
#include <vector>

#include "server/dialects/inference_call.hpp"
#include "server/http/router.hpp"
#include "server/inference/model_service.hpp"

namespace mme::server {

/// Bodies as JSON, for inference calls. The same for the SageMaker dialect, where it takes such bodies.
[[nodiscard]] const InferenceWire& oip_json_wire();

struct OipOptions {
  std::string version;            ///< of this server, for its metadata
  bool offers_repository = true;  ///< name the model repository extension; false where admin routes are not mounted
  Aside aside = {};               ///< where large bodies are read and written
};

/// Stateless; handlers may run on any io thread, several at once. The service must outlive it.
class OipV2 final : public Dialect {
 public:
  OipV2(ModelService& service, OipOptions options);

  [[nodiscard]] std::string_view name() const noexcept override { return "oip_v2"; }
  [[nodiscard]] std::vector<Route> routes() override;
  /// {"error": "..."}
  [[nodiscard]] Reply error_reply(const Error& error) const override;

 private:
  Reply server_metadata(Exchange& exchange);
  Reply live(Exchange& exchange);
  Reply ready(Exchange& exchange);
  Reply model_metadata(Exchange& exchange);
  Reply model_ready(Exchange& exchange);
  Reply index(Exchange& exchange);
  asio::awaitable<Reply> infer(Exchange& exchange);
  asio::awaitable<Reply> load(Exchange& exchange);
  asio::awaitable<Reply> unload(Exchange& exchange);

  /// A route's model as it is now, noted in the record.
  Result<ModelInfo> look_up(Exchange& exchange);
  Handler at_once_by(Reply (OipV2::*member)(Exchange&));
  Handler by(asio::awaitable<Reply> (OipV2::*member)(Exchange&));

  ModelService& service_;
  OipOptions options_;
  InferenceCalls calls_;
};

}  // namespace mme::server
