// The SageMaker container contract's bodies, read and written. Pure: bytes to values and back.
// No routes and no service; sagemaker has the routes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/error.hpp"
#include "loader/tensor.hpp"
#include "server/codecs/tensor_json.hpp"
#include "server/http/message.hpp"
#include "server/inference/model_service.hpp"

namespace mme::server::sagemaker {

/// A JSON array of any nesting as the model's first input, INPUT__0: as `type`, else numbers FP32, strings BYTES.
[[nodiscard]] Result<loader::TensorMap> read_array(std::string_view body,
                                                   std::optional<loader::DataType> type = std::nullopt);

/// One output: its nested list, bare; several: an object of nested lists by name. Numbers as json.dumps writes them.
[[nodiscard]] Result<std::string> write_outputs(const loader::TensorMap& outputs, const Reserve& reserve = {});

struct LoadRequest {
  std::string model_name;          ///< not yet checked
  std::optional<std::string> url;  ///< nullopt: the artifact that the name has
};
/// From a JSON body or, when there is none, from the query. Fields meant for other servers are ignored.
[[nodiscard]] Result<LoadRequest> read_load_request(const Request& request);

struct Page {
  std::vector<ModelInfo> models;
  std::optional<std::string> next;  ///< nullopt on the last page
};
/// One page of `models`, each name once. `limit` 1 to 100 (more is 100, none is 100). A token continues after the name
/// that ended the page before, also when that model is gone, so that a changing list neither repeats nor skips.
[[nodiscard]] Result<Page> page_of(std::vector<ModelInfo> models, std::optional<std::string_view> limit,
                                   std::optional<std::string_view> token);
[[nodiscard]] std::string write_page(const Page& page);

[[nodiscard]] std::string write_model(const ModelInfo& info);
/// {"status": "..."}
[[nodiscard]] std::string write_status(std::string_view status);
/// {"code", "type", "message"}
[[nodiscard]] std::string write_error(const Error& error);

}  // namespace mme::server::sagemaker
