// Which of the files that a name could mean it does mean, or why none.
// Pure: works on a Layout that was looked up before.
#pragma once

#include <optional>
#include <string>

#include "loader/error.hpp"
#include "loader/repository/layout.hpp"

namespace mme::loader {

struct Choice {
  std::string relative;                ///< path of the artifact in the repository
  std::optional<std::string> version;  ///< as its folder spells it; nullopt for an unversioned artifact
};

/// Without a version: the highest. Versions are compared by number, so 7 and 007 are one version, and both on disk are
/// a conflict. Errors: model_unknown, conflict (naming two files), invalid_request (outside the repository).
[[nodiscard]] Result<Choice> choose(const std::string& name, const Layout& layout,
                                    const std::optional<std::string>& version);

[[nodiscard]] Error artifact_unknown(const std::string& name);
[[nodiscard]] Error artifact_outside(const std::string& name);

}  // namespace mme::loader
