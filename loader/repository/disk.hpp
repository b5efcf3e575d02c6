// Single looks at the file system: one file, one folder, one path made canonical.
// Knows nothing of models or layouts; throws nothing, and what cannot be read counts as not there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/model.hpp"

namespace mme::loader::disk {

/// Visible entries of one folder, sorted. Names are printable ASCII; others are left out, so that whatever is found can
/// be shown in a message. Symlinks count as what they lead to.
struct Folder {
  std::vector<std::string> artifacts;  ///< regular files *.pt and *.pth
  std::vector<std::string> folders;    ///< hidden ones are left out
};

/// nullopt when `path` is no readable folder.
[[nodiscard]] std::optional<Folder> read_folder(const std::filesystem::path& path);

struct File {
  ArtifactId id;  ///< its path is as given
  /// When the file was made, ns of wall time; 0 where the file system does not say. Tells a new file from a changed
  /// one: inode numbers are used again at once.
  std::int64_t birth_ns = 0;
};

/// One look, follows symlinks. nullopt unless it leads to a regular file.
[[nodiscard]] std::optional<File> look_at_file(const std::filesystem::path& path);

/// The path without symlinks, `.` and `..`; nullopt when it leads nowhere.
[[nodiscard]] std::optional<std::filesystem::path> canonical(const std::filesystem::path& path);

/// True when `path` is `root` or below it. Both must be canonical.
[[nodiscard]] bool is_inside(const std::filesystem::path& root, const std::filesystem::path& path);

/// True when the file ends with the end record of a zip archive: a copy that goes on is not there yet.
[[nodiscard]] bool ends_as_zip(const std::filesystem::path& path);

[[nodiscard]] bool is_artifact_name(std::string_view file_name) noexcept;

}  // namespace mme::loader::disk
