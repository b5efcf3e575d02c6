// The environment variables of SageMaker's hosting contract, and our own, as settings.
// Reads a table that it is given, never the process's environment itself.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/draft.hpp"

namespace mme::server {

using Environment = std::map<std::string, std::string>;

/// Sets what the variables ask for. Returns those that look meant for a model server but change nothing here, sorted,
/// for one log line: "NAME" or "NAME (why)".
[[nodiscard]] std::vector<std::string> read_environment(const Environment& environment, Draft& draft);

/// What may stand behind "Bearer ": printable, no spaces, not empty.
[[nodiscard]] bool is_token(std::string_view text);

/// SAGEMAKER_BASE_DIR or /opt/ml.
[[nodiscard]] std::string base_folder(const Environment& environment);

}  // namespace mme::server
