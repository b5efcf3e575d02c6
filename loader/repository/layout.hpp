// Which files one name could mean: NAME.pt, NAME/model.pt (or the only *.pt, *.pth in NAME), NAME/VERSION/ alike.
// Looks at one name only and picks none; the catalog does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mme::loader {

struct StoredVersion {
  std::uint64_t number = 0;
  std::string spelling;                ///< the folder's name: "7" or "007"
  std::vector<std::string> artifacts;  ///< one; several when nothing says which it is
};

/// Paths are relative to the repository.
struct Layout {
  std::optional<std::string> file;      ///< NAME.pt
  std::optional<std::string> folder;    ///< the one artifact that lies directly in the folder NAME
  std::vector<StoredVersion> versions;  ///< by number, ascending; folders without an artifact are left out
  std::size_t loose_files = 0;          ///< artifacts directly in the folder when none of them is NAME's
  bool outside = false;                 ///< the folder is a symlink out of the repository; it was not read

  [[nodiscard]] bool empty() const noexcept { return !file && !folder && versions.empty(); }
};

/// Everything that `relative` could mean now. `root` is canonical, `relative` has no empty, `.` or `..` parts.
[[nodiscard]] Layout survey(const std::filesystem::path& root, const std::string& relative);

/// `model.pt` in a folder below the root is the artifact of that folder and never a model called `.../model`.
[[nodiscard]] bool belongs_to_folder(const std::string& relative_file);

}  // namespace mme::loader
