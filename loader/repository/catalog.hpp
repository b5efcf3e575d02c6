// What is on disk: from a model's name and version to its artifact, and the list of all of them.
// Looks and never writes; knows nothing of what is in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/error.hpp"
#include "loader/model.hpp"

namespace mme::loader {

/// One artifact on disk, or a name that has two.
struct StoredModel {
  std::string name;
  std::optional<std::string> version;
  std::string url;  ///< path relative to the repository; safe to show
  std::uint64_t bytes = 0;
  std::optional<Error> error;  ///< conflict, settling, ...: why it cannot be served
};

/// A model's own settings file. What stands in it is for others to read.
struct SettingsFile {
  std::string relative;  ///< path in the repository; safe to show
  ArtifactId id;         ///< its path is canonical; another id is another content
};

/// Thread-safe. Members touch the disk (a few stat calls for resolve, a walk for list): microseconds on a local disk.
class Catalog {
 public:
  explicit Catalog(std::filesystem::path root);
  ~Catalog();

  /// The artifact behind a name as the disk is now: a changed file has another ArtifactId. Without a version: the
  /// highest one. Errors: model_unknown, conflict (two artifacts for one name, naming both by relative path),
  /// settling (a file whose size changed between two looks).
  [[nodiscard]] Result<ModelSpec> resolve(const std::string& name, const std::optional<std::string>& version) const;

  /// As resolve(), for a path inside the repository: absolute or relative, no scheme, a file, a folder or a stem.
  /// Symlinks are followed and the result must still be inside. invalid_request when it is not.
  [[nodiscard]] Result<ModelSpec> resolve_url(const std::string& name, const std::string& url) const;

  /// From now on `name` means the artifact behind `url`, until unregister or restart.
  void register_alias(const std::string& name, const std::string& url);
  void unregister_alias(const std::string& name);

  /// NAME.yaml or NAME/model.yaml, nullopt when there is neither. `url`: of a load that names its artifact; the files
  /// beside that artifact count then. conflict when both are there, invalid_request when a link leads outside.
  [[nodiscard]] Result<std::optional<SettingsFile>> settings_file(const std::string& name,
                                                                  const std::optional<std::string>& url) const;

  /// Versions of a name, ascending by number; empty when it is unversioned or unknown.
  [[nodiscard]] std::vector<std::string> versions(const std::string& name) const;

  /// The artifact's path relative to the repository; safe to show.
  [[nodiscard]] std::string url_of(const ModelSpec& spec) const;

  /// Everything stored, sorted by name and version (by number).
  [[nodiscard]] std::vector<StoredModel> list() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mme::loader
