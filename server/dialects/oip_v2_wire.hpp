// The Open Inference Protocol's JSON bodies, read and written. Pure: bytes to values and back.
// No routes, no service, no binary tensors; oip_v2 has the routes.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/error.hpp"
#include "loader/tensor.hpp"
#include "server/codecs/tensor_json.hpp"
#include "server/inference/model_service.hpp"

namespace mme::server::oip {

/// Most inputs, or requested outputs, of one request.
inline constexpr std::size_t kMostTensors = 4096;

struct InferRequest {
  std::optional<std::string> id;
  loader::TensorMap inputs;          ///< names unique
  std::vector<std::string> outputs;  ///< the ones asked for, in their order; empty: all
  std::optional<std::chrono::microseconds> timeout;
};

/// Unknown fields are ignored, as other servers do; repeated ones are refused, and so is what would change the answer
/// and is not offered here: shared memory, classification, binary tensors. `parameters.timeout` is in microseconds, 0
/// means none. Errors: invalid_request, invalid_tensor.
[[nodiscard]] Result<InferRequest> read_infer_request(std::string_view body);

/// The earlier of `deadline` and now + the request's own time-out.
[[nodiscard]] Deadline deadline_of(const InferRequest& request, Deadline deadline);

/// invalid_request when an output was asked for that the model did not give; not_acceptable for bytes that JSON cannot
/// carry; what `reserve` says.
[[nodiscard]] Result<std::string> write_infer_reply(const std::string& model_name,
                                                    const std::optional<std::string>& version,
                                                    const InferRequest& request, const loader::TensorMap& outputs,
                                                    const Reserve& reserve = {});

[[nodiscard]] std::string write_server_metadata(std::string_view version,
                                                const std::vector<std::string_view>& extensions);
[[nodiscard]] std::string write_model_metadata(const ModelInfo& info);
[[nodiscard]] std::string write_model_ready(const std::string& model_name);

/// True: only models that are ready. An empty body is false.
[[nodiscard]] Result<bool> read_index_request(std::string_view body);
[[nodiscard]] std::string write_index(const std::vector<ModelInfo>& models, bool only_ready);

/// A body is optional; overriding a model's configuration or files is not offered (invalid_request).
[[nodiscard]] Result<void> check_load_request(std::string_view body);
[[nodiscard]] Result<void> check_unload_request(std::string_view body);

}  // namespace mme::server::oip
