// The environment variables that libtorch's libraries read when they are loaded, so that main can set them and re-exec.
// Sets nothing itself and knows no libtorch.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace mme::loader {

/// Name and value of each variable that must be in the environment before exec. A value that a user has set wins:
/// callers add only what is absent. `intra_op`: threads that one operator may use, at least 1.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> required_environment(std::size_t intra_op);

}  // namespace mme::loader
