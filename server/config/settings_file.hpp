// The YAML settings file: from its text into a draft. Every problem is told with file and line; nothing is skipped.
// Reads no disk; whoever calls has the text.
#pragma once

#include <string>
#include <string_view>

#include "server/config/draft.hpp"

namespace mme::server {

/// `name` is how problems call the file. An empty file sets nothing.
void read_settings_file(const std::string& name, std::string_view text, Draft& draft);

}  // namespace mme::server
