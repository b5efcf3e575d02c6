// The YAML settings file: from its text into a draft. Every problem is told with file and line; nothing is skipped.
// Reads no disk; whoever calls has the text.
#pragma once

#include <string>
#include <string_view>

#include "server/config/draft.hpp"

namespace mme::server {

/// `name` is how problems call the file. An empty file sets nothing.
void read_settings_file(const std::string& name, std::string_view text, Draft& draft);

/// A model's own settings file: what stands under `models: {NAME: ...}` elsewhere, at the root. `aliases` are refused
/// in it: which names a server answers to is its operator's to say, not a model's.
struct ModelFile {
  ModelOptions options;
  std::vector<Problem> problems;
};
[[nodiscard]] ModelFile read_model_file(const std::string& name, std::string_view text);

}  // namespace mme::server
