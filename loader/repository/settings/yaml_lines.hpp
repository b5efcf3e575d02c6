// What a look at the lines of a YAML file finds before any parser does: tabs, control characters, directives.
#pragma once

#include <string_view>
#include <vector>

#include "loader/repository/settings/strict_yaml.hpp"

namespace mme::loader {

/// At most one problem a line, at most a hundred. Tabs are allowed in comments only.
[[nodiscard]] std::vector<YamlProblem> check_yaml_lines(std::string_view text);

}  // namespace mme::loader
