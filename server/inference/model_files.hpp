// The settings that models bring along: NAME.yaml or NAME/model.yaml beside them.
// Looked for at each call, read when it changed. A file that is no good makes its own model unusable and nothing else.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "loader/repository/catalog.hpp"
#include "server/config/settings.hpp"

namespace mme::server {

/// Thread-safe. The catalog must outlive it.
class ModelFiles {
 public:
  explicit ModelFiles(const loader::Catalog& catalog) : catalog_(catalog) {}

  /// What the model's own file says now; nothing when it has none. model_broken: every problem with file and line;
  /// conflict: there are two such files.
  [[nodiscard]] loader::Result<ModelOptions> options(const std::string& name,
                                                     const std::optional<std::string>& url = std::nullopt);

 private:
  using Options = loader::Result<ModelOptions>;
  struct Known {
    loader::ArtifactId id;
    Options options;
  };

  const loader::Catalog& catalog_;
  std::mutex mutex_;
  std::unordered_map<std::string, Known> known_;  ///< by relative path; bounded
};

}  // namespace mme::server
