#include "loader/repository/choice.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace mme::loader {
namespace {

Error two_artifacts(const std::string& name, const std::string& first, const std::string& second) {
  return fail(ErrorCode::conflict, "model '" + name + "' has two artifacts: " + first + " and " + second);
}

Error no_version(const std::string& name, const std::string& version) {
  return fail(ErrorCode::model_unknown, "model '" + name + "' has no version " + version);
}

Result<Choice> choose_version(const std::string& name, const std::vector<StoredVersion>& versions,
                              const std::optional<std::string>& wanted) {
  const auto number = wanted ? std::stoull(*wanted) : versions.back().number;
  const auto is_it = [&](const StoredVersion& version) { return version.number == number; };
  const auto found = std::find_if(versions.begin(), versions.end(), is_it);
  if (found == versions.end()) return no_version(name, *wanted);
  const auto twin = std::find_if(found + 1, versions.end(), is_it);
  if (twin != versions.end()) return two_artifacts(name, found->artifacts[0], twin->artifacts[0]);
  if (found->artifacts.size() > 1) return two_artifacts(name, found->artifacts[0], found->artifacts[1]);
  return Choice{found->artifacts[0], found->spelling};
}

}  // namespace

Error artifact_unknown(const std::string& name) {
  return fail(ErrorCode::model_unknown, "no model '" + name + "' in the repository");
}

Error artifact_outside(const std::string& name) {
  return fail(ErrorCode::invalid_request, "the artifact of model '" + name + "' lies outside the repository");
}

Result<Choice> choose(const std::string& name, const Layout& layout, const std::optional<std::string>& version) {
  if (layout.outside) return artifact_outside(name);
  std::vector<std::string> meanings;
  if (layout.file) meanings.push_back(*layout.file);
  if (layout.folder) meanings.push_back(*layout.folder);
  if (!layout.versions.empty()) meanings.push_back(layout.versions.front().artifacts.front());
  if (meanings.size() > 1) return two_artifacts(name, meanings[0], meanings[1]);
  if (!layout.versions.empty()) return choose_version(name, layout.versions, version);
  if (!meanings.empty() && version) return no_version(name, *version);
  if (!meanings.empty()) return Choice{meanings.front(), std::nullopt};
  Error error = artifact_unknown(name);
  if (layout.loose_files > 0) error.message += ": its folder holds several artifacts and no model.pt";
  return error;
}

}  // namespace mme::loader
