// The `url` of a load request: a path inside the repository, as clients and platforms write it.
// Text only; the disk is not looked at, so what lies outside the repository is never touched.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "loader/error.hpp"

namespace mme::loader {

/// The path relative to the repository, without empty and `.` parts. `roots`: spellings of the repository's own path
/// that an absolute url may begin with, without a trailing slash. invalid_request: a scheme, `..`, a hidden part,
/// characters that are no printable ASCII, a backslash, more than 1,024 bytes, the root itself, or anything outside.
[[nodiscard]] Result<std::string> relative_path_of(const std::string& url,
                                                   const std::vector<std::filesystem::path>& roots);

}  // namespace mme::loader
