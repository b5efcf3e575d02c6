// One inference, the same in every protocol: read the body, run the model, write the reply.
// Charges what that takes to the memory budget, and keeps large bodies off the io threads. How bodies look is the
// protocols' own business.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "server/codecs/tensor_json.hpp"
#include "server/dialects/oip_v2_wire.hpp"
#include "server/http/router.hpp"
#include "server/inference/model_service.hpp"

namespace mme::server {

/// How a protocol reads and writes an inference. Both may run on another thread than the handler.
struct InferenceWire {
  std::function<Result<oip::InferRequest>(std::string_view body)> read;
  std::function<Result<std::string>(const ModelRef& model, const oip::InferRequest& request,
                                    const InferenceResult& result, const Reserve& reserve)>
      write;
};

/// Runs a task on a thread where it may take its time. Empty: there is none, work is done where it is asked for.
using Aside = std::function<void(std::function<void()>)>;

/// Stateless; any io thread, several at once. The service must outlive it.
class InferenceCalls {
 public:
  explicit InferenceCalls(ModelService& service, Aside aside = {}) : service_(service), aside_(std::move(aside)) {}

  /// Takes the request's body. Errors are replies in the dialect's shape: those of reading and writing, of the
  /// service, and all_in_use when there is no room in the budget to read or to write.
  /// `wire` must live as long as the call does.
  asio::awaitable<Reply> run(const Dialect& dialect, Exchange& exchange, ModelRef model, const InferenceWire& wire);

 private:
  template <class T>
  asio::awaitable<Result<T>> run_work(bool takes_long, std::function<Result<T>()> work);

  ModelService& service_;
  Aside aside_;
};

}  // namespace mme::server
