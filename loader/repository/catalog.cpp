#include "loader/repository/catalog.hpp"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "loader/repository/artifact_url.hpp"
#include "loader/repository/choice.hpp"
#include "loader/repository/disk.hpp"
#include "loader/repository/layout.hpp"
#include "loader/repository/names.hpp"
#include "loader/repository/settling.hpp"
#include "loader/repository/walk.hpp"

namespace mme::loader {
namespace {

namespace fs = std::filesystem;

fs::path without_trailing_slash(fs::path path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

struct Catalog::Impl {
  explicit Impl(const fs::path& given) : root(without_trailing_slash(fs::absolute(given).lexically_normal())) {}

  /// Asked for once a call: the root may itself be a symlink that is switched while we run.
  [[nodiscard]] fs::path real_root() const { return disk::canonical(root).value_or(root); }
  [[nodiscard]] std::optional<std::string> alias(const std::string& name) const;

  [[nodiscard]] Result<ModelSpec> by_url(const std::string& name, const std::string& url,
                                         const std::optional<std::string>& version) const;
  [[nodiscard]] Result<ModelSpec> finish(const fs::path& real_root, const std::string& name, Choice choice) const;
  [[nodiscard]] std::optional<StoredModel> stored(const fs::path& real_root, const std::string& name,
                                                  const Layout& layout,
                                                  const std::optional<std::string>& version) const;

  const fs::path root;
  mutable SettlingWatch settling;
  mutable std::shared_mutex mutex;
  std::map<std::string, std::string> aliases;  ///< guarded by mutex
};

std::optional<std::string> Catalog::Impl::alias(const std::string& name) const {
  const std::shared_lock lock(mutex);
  const auto found = aliases.find(name);
  return found == aliases.end() ? std::nullopt : std::optional(found->second);
}

Result<ModelSpec> Catalog::Impl::by_url(const std::string& name, const std::string& url,
                                        const std::optional<std::string>& version) const {
  const fs::path real = real_root();
  const auto relative = relative_path_of(url, {root, real});
  if (!relative) return relative.error();
  if (!version && disk::is_artifact_name(*relative) && disk::look_at_file(real / *relative)) {
    return finish(real, name, {*relative, std::nullopt});
  }
  const auto choice = choose(name, survey(real, *relative), version);
  if (!choice) return choice.error();
  return finish(real, name, *choice);
}

/// From a chosen file to a spec: still there, inside the root, not being written.
Result<ModelSpec> Catalog::Impl::finish(const fs::path& real_root, const std::string& name, Choice choice) const {
  const auto real = disk::canonical(real_root / choice.relative);
  if (!real) return artifact_unknown(name);
  if (!disk::is_inside(real_root, *real)) return artifact_outside(name);
  auto file = disk::look_at_file(*real);
  if (!file) return artifact_unknown(name);
  if (settling.is_settling(*file)) {
    return fail(ErrorCode::settling, "the artifact of model '" + name + "' is still being written");
  }
  ModelSpec spec;
  spec.name = name;
  spec.version = std::move(choice.version);
  spec.artifact = std::move(file->id);
  return spec;
}

/// One line of the list; nullopt when it went away since the walk.
std::optional<StoredModel> Catalog::Impl::stored(const fs::path& real_root, const std::string& name,
                                                 const Layout& layout,
                                                 const std::optional<std::string>& version) const {
  const auto choice = choose(name, layout, version);
  const auto spec = choice ? finish(real_root, name, *choice) : Result<ModelSpec>(choice.error());
  if (!spec && spec.error().code == ErrorCode::model_unknown) return std::nullopt;
  StoredModel model{name, version, {}, 0, std::nullopt};
  if (choice) model.url = choice->relative;
  if (spec) {
    model.bytes = spec->artifact.size;
  } else {
    model.error = spec.error();
  }
  return model;
}

Catalog::Catalog(fs::path root) : impl_(std::make_unique<Impl>(root)) {}
Catalog::~Catalog() = default;

Result<ModelSpec> Catalog::resolve(const std::string& name, const std::optional<std::string>& version) const {
  if (!is_valid_model_name(name)) return fail(ErrorCode::invalid_request, "not a model name");
  if (version && !is_valid_version(*version)) return fail(ErrorCode::invalid_request, "not a version number");
  if (const auto url = impl_->alias(name)) return impl_->by_url(name, *url, version);
  const fs::path real = impl_->real_root();
  const auto choice = choose(name, survey(real, name), version);
  if (!choice) return choice.error();
  return impl_->finish(real, name, *choice);
}

Result<ModelSpec> Catalog::resolve_url(const std::string& name, const std::string& url) const {
  if (!is_valid_model_name(name)) return fail(ErrorCode::invalid_request, "not a model name");
  return impl_->by_url(name, url, std::nullopt);
}

void Catalog::register_alias(const std::string& name, const std::string& url) {
  const std::unique_lock lock(impl_->mutex);
  impl_->aliases[name] = url;
}

void Catalog::unregister_alias(const std::string& name) {
  const std::unique_lock lock(impl_->mutex);
  impl_->aliases.erase(name);
}

Result<std::optional<SettingsFile>> Catalog::settings_file(const std::string& name,
                                                           const std::optional<std::string>& url) const {
  const fs::path real = impl_->real_root();
  const auto by = url ? url : impl_->alias(name);
  auto stem = by ? relative_path_of(*by, {impl_->root, real}) : Result<std::string>(name);
  if (!stem) return stem.error();
  if (disk::is_artifact_name(*stem)) *stem = fs::path(*stem).replace_extension().string();
  std::optional<SettingsFile> found;
  for (const std::string& relative : {*stem + ".yaml", *stem + "/model.yaml"}) {
    if (!disk::look_at_file(real / relative)) continue;
    const auto path = disk::canonical(real / relative);
    if (!path) continue;
    if (!disk::is_inside(real, *path)) {
      return fail(ErrorCode::invalid_request, "the settings file '" + relative + "' leads out of the repository");
    }
    auto file = disk::look_at_file(*path);
    if (!file) continue;
    if (found) {
      return fail(ErrorCode::conflict,
                  "two settings files for one model: '" + found->relative + "' and '" + relative + "'");
    }
    found = SettingsFile{relative, std::move(file->id)};
  }
  return found;
}

std::vector<std::string> Catalog::versions(const std::string& name) const {
  if (!is_valid_model_name(name)) return {};
  const fs::path real = impl_->real_root();
  const auto url = impl_->alias(name);
  const auto relative = url ? relative_path_of(*url, {impl_->root, real}) : Result<std::string>(name);
  if (!relative) return {};
  std::vector<std::string> spellings;
  for (auto& version : survey(real, *relative).versions) spellings.push_back(std::move(version.spelling));
  return spellings;
}

std::string Catalog::url_of(const ModelSpec& spec) const {
  const fs::path path = spec.artifact.path;
  const fs::path real = impl_->real_root();
  return (disk::is_inside(real, path) ? path.lexically_relative(real) : path.filename()).string();
}

std::vector<StoredModel> Catalog::list() const {
  const fs::path real = impl_->real_root();
  std::vector<StoredModel> all;
  for (const auto& name : stored_names(real)) {
    const Layout layout = survey(real, name);
    std::vector<std::optional<std::string>> versions;
    if (!layout.file && !layout.folder) {
      for (const auto& version : layout.versions) versions.emplace_back(version.spelling);
    }
    if (versions.empty()) versions.emplace_back(std::nullopt);  // unversioned, or a name with a conflict
    for (const auto& version : versions) {
      if (auto model = impl_->stored(real, name, layout, version)) all.push_back(std::move(*model));
    }
  }
  return all;
}

}  // namespace mme::loader
