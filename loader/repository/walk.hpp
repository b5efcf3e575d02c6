// Finds every name that has something in the repository. Names only: what a name means is the catalog's to say.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace mme::loader {

/// Sorted; `root` is canonical. Hidden files and folders and loops of symlinks are passed over, folders outside the
/// root are named but not read. A lone artifact of a folder counts for the folder, not for a name of its own.
[[nodiscard]] std::set<std::string> stored_names(const std::filesystem::path& root);

}  // namespace mme::loader
