// One short text for the content of a model archive, made of what its zip directory says.
// Reads nothing of the file itself.
#pragma once

#include <string>
#include <string_view>

#include "loader/zip_directory.hpp"

namespace mme::loader {

/// 32 hexadecimal digits of name, sizes and CRC-32 of every member, in the order of the directory. `root`: the folder
/// that holds everything, with its slash; its own name does not count, nor do the file's name, place and times.
/// Equal digests are equal content as far as the writer's checksums tell: enough to remember sizes by, no proof.
[[nodiscard]] std::string archive_digest(const ZipDirectory& directory, std::string_view root);

}  // namespace mme::loader
