#include "loader/repository/layout.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>
#include <utility>

#include "loader/repository/disk.hpp"
#include "loader/repository/names.hpp"

namespace mme::loader {
namespace {

constexpr std::string_view kModelFile = "model.pt";

/// The artifacts of a folder: its model.pt whatever lies beside it, else all there are.
std::vector<std::string> artifacts_of(const std::string& relative, std::vector<std::string> names) {
  if (std::find(names.begin(), names.end(), kModelFile) != names.end()) names = {std::string(kModelFile)};
  for (auto& name : names) name.insert(0, relative + '/');
  return names;
}

/// As above for a folder not read yet; most hold a model.pt, and one stat finds it.
std::vector<std::string> artifacts_in(const std::filesystem::path& root, const std::string& relative) {
  if (disk::look_at_file(root / relative / kModelFile)) return artifacts_of(relative, {std::string(kModelFile)});
  const auto real = disk::canonical(root / relative);
  if (!real || !disk::is_inside(root, *real)) return {};
  auto folder = disk::read_folder(*real);
  return folder ? artifacts_of(relative, std::move(folder->artifacts)) : std::vector<std::string>{};
}

std::uint64_t number_of(const std::string& digits) noexcept {
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::vector<StoredVersion> versions_in(const std::filesystem::path& root, const std::string& relative,
                                       const std::vector<std::string>& folders) {
  std::vector<StoredVersion> versions;
  for (const auto& name : folders) {
    if (!is_valid_version(name)) continue;
    auto artifacts = artifacts_in(root, relative + '/' + name);
    if (!artifacts.empty()) versions.push_back({number_of(name), name, std::move(artifacts)});
  }
  std::sort(versions.begin(), versions.end(), [](const StoredVersion& a, const StoredVersion& b) {
    return std::tie(a.number, a.spelling) < std::tie(b.number, b.spelling);
  });
  return versions;
}

}  // namespace

Layout survey(const std::filesystem::path& root, const std::string& relative) {
  Layout layout;
  const std::string file = relative + ".pt";
  if (!belongs_to_folder(file) && disk::look_at_file(root / file)) layout.file = file;
  const auto real = disk::canonical(root / relative);
  layout.outside = real && !disk::is_inside(root, *real);
  if (!real || layout.outside) return layout;
  auto folder = disk::read_folder(*real);
  if (!folder) return layout;
  layout.versions = versions_in(root, relative, folder->folders);
  auto artifacts = artifacts_of(relative, std::move(folder->artifacts));
  if (artifacts.size() == 1) {
    layout.folder = std::move(artifacts.front());
  } else {
    layout.loose_files = artifacts.size();
  }
  return layout;
}

bool belongs_to_folder(const std::string& relative_file) {
  return relative_file.ends_with("/model.pt");
}

}  // namespace mme::loader
