#include "server/config/resolve.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "server/config/settings_file.hpp"

namespace mme::server {
namespace {

using loader::ErrorCode;
using loader::fail;
using loader::Result;

constexpr std::size_t kLargestFile = (1U << 20) + 1;  // one more than any reader takes, so that it sees too much
constexpr std::string_view kModels = "models.";

Result<std::string> read_whole_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return fail(ErrorCode::invalid_request, "there is no such file");
  if (!std::filesystem::is_regular_file(status)) return fail(ErrorCode::invalid_request, "this is not a regular file");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return fail(ErrorCode::invalid_request, "the file cannot be opened");
  std::string text(kLargestFile, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return fail(ErrorCode::invalid_request, "the file cannot be read");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

void read_assignments(const std::vector<Assignment>& assignments, Layer layer, Draft& draft) {
  for (const auto& [flag, key, value] : assignments) {
    const Origin origin{layer, flag};
    const std::size_t dot = key.rfind('.');
    // Names of models hold dots and slashes, their settings do not.
    if (key.starts_with(kModels) && dot > kModels.size()) {
      const std::string model = key.substr(kModels.size(), dot - kModels.size());
      draft.set_model(model, key.substr(dot + 1), Value::of(value), origin);
    } else {
      draft.set(key, Value::of(value), origin);
    }
  }
}

/// Defaults that only hold in a mode, so anything said elsewhere wins.
void set_implied(Draft& draft, const std::string& key, const std::string& value, const std::string& mode) {
  if (draft.origin(key).layer == Layer::standard) draft.set(key, Value::of(value), {Layer::mode, mode});
}

void apply_mode(const std::string& base, const Disk& disk, Draft& draft) {
  Settings& settings = draft.settings;
  const bool nothing_said =
      draft.origin("mode").layer == Layer::standard && draft.origin("repository.path").layer == Layer::standard;
  if (nothing_said && disk.folder_exists(base + "/model")) {
    draft.set("mode", Value::of("single"), {Layer::mode, "because " + base + "/model exists"});
  }
  if (settings.mode == Mode::platform) {
    set_implied(draft, "repository.path", base + "/models", "platform");
    set_implied(draft, "listeners.host", "0.0.0.0", "platform");
  }
  if (settings.mode == Mode::single) {
    set_implied(draft, "repository.path", base, "single");
    set_implied(draft, "cache.preload", "model", "single");
    set_implied(draft, "listeners.host", "0.0.0.0", "single");
  }
}

/// Notes whose alias is which. One that is taken, by a model with settings or by another alias, would hide it.
void resolve_aliases(Draft& draft) {
  auto& owners = draft.settings.real_names;
  for (const auto& [model, options] : draft.settings.models) {
    const std::string key = "models." + model + ".aliases";
    for (const auto& alias : options.aliases) {
      const auto [owner, is_new] = owners.emplace(alias, model);
      if (is_new && !draft.settings.models.contains(alias)) continue;
      const std::string taken_by = is_new ? "a model of its own" : "an alias of '" + owner->second + "'";
      draft.add_problem(draft.origin(key).detail, key, "'" + alias + "' is " + taken_by + " already");
    }
  }
}

/// What no value has wrong by itself.
void check_together(Draft& draft) {
  const Settings& settings = draft.settings;
  const auto complain = [&](const std::string& key, std::string what) {
    const Origin origin = draft.origin(key);
    draft.add_problem(origin.detail.empty() ? origin.text() : origin.detail, key, std::move(what));
  };
  if (settings.mode == Mode::platform) {
    if (settings.cache.idle_unload) complain("cache.idle_unload", "the platform unloads models, not mode platform");
    if (!settings.cache.pinned.empty()) complain("cache.pinned", "nothing is evicted in mode platform");
    for (const auto& [model, options] : settings.models) {
      if (options.pinned.value_or(false))
        complain("models." + model + ".pinned", "nothing is evicted in mode platform");
    }
    if (!settings.cache.preload.empty()) complain("cache.preload", "the platform loads models, not mode platform");
  }
  if (settings.cache.memory_budget && settings.cache.activation_floor &&
      *settings.cache.activation_floor >= *settings.cache.memory_budget) {
    complain("cache.activation_floor", "must be smaller than cache.memory_budget");
  }
}

void read_token_file(const Disk& disk, Draft& draft) {
  const std::string& path = draft.settings.admin.token_file;
  const Origin origin = draft.origin("admin.token_file");
  if (path.empty() || draft.origin("admin.token").layer > origin.layer) return;
  const auto text = disk.read_file(path);
  if (!text) return draft.add_problem(origin.detail, "admin.token_file", text.error().message);
  const std::string token = text->substr(0, text->find_first_of("\r\n"));
  if (!is_token(token)) {
    return draft.add_problem(origin.detail, "admin.token_file", "its first line must be a token without spaces");
  }
  draft.settings.admin.token = token;
  draft.origins["admin.token"] = {origin.layer, origin.detail + " (admin.token_file)"};
}

}  // namespace

Disk Disk::real() {
  return {&read_whole_file, [](const std::string& path) {
            std::error_code error;
            return std::filesystem::is_directory(path, error);
          }};
}

Origin Resolved::origin(const std::string& key) const {
  const auto found = origins.find(key);
  return found == origins.end() ? Origin{} : found->second;
}

Resolved resolve(const Sources& sources, const Disk& disk) {
  Draft draft;
  if (sources.file) {
    const std::string shown =
        sources.hide_folders ? std::filesystem::path(*sources.file).filename().string() : *sources.file;
    if (const auto text = disk.read_file(*sources.file)) {
      read_settings_file(shown, *text, draft);
    } else {
      draft.add_problem(shown, "", text.error().message);
    }
  }
  auto ignored = read_environment(sources.environment, draft);
  read_assignments(sources.flags, Layer::flag, draft);
  apply_mode(base_folder(sources.environment), disk, draft);
  check_together(draft);
  resolve_aliases(draft);
  read_token_file(disk, draft);
  return {std::move(draft.settings), std::move(draft.origins), std::move(draft.hidden), std::move(draft.problems),
          std::move(ignored)};
}

Resolved with_admin(const Resolved& resolved, const std::vector<Assignment>& assignments) {
  Draft draft;
  draft.settings = resolved.settings;
  draft.origins = resolved.origins;
  draft.hidden = resolved.hidden;
  draft.problems = resolved.problems;
  read_assignments(assignments, Layer::admin, draft);
  return {std::move(draft.settings), std::move(draft.origins), std::move(draft.hidden), std::move(draft.problems),
          resolved.ignored};
}

}  // namespace mme::server
