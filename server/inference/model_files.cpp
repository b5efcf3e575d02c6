#include "server/inference/model_files.hpp"

#include <fstream>

#include "server/config/settings_file.hpp"

namespace mme::server {
namespace {

using loader::ErrorCode;
using loader::fail;
using loader::Result;

constexpr std::size_t kLargestFile = std::size_t{64} << 10;
constexpr std::size_t kMostKnown = 10'000;
constexpr std::size_t kMostProblems = 10;

Result<std::string> read_text(const loader::SettingsFile& file) {
  if (file.id.size > kLargestFile) return fail(ErrorCode::model_broken, file.relative + " is larger than 64KiB");
  std::ifstream stream(file.id.path, std::ios::binary);
  std::string text(file.id.size, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return fail(ErrorCode::model_broken, file.relative + " cannot be read");
  }
  return text;
}

Result<ModelOptions> read(const loader::SettingsFile& file) {
  const auto text = read_text(file);
  if (!text) return text.error();
  auto read = read_model_file(file.relative, *text);
  if (read.problems.empty()) return std::move(read.options);
  std::string all;
  for (std::size_t i = 0; i < read.problems.size() && i < kMostProblems; ++i) {
    all += (i == 0 ? "" : "; ") + read.problems[i].text();
  }
  if (read.problems.size() > kMostProblems) all += "; and more";
  return fail(ErrorCode::model_broken, "the settings of the model are no good: " + all);
}

}  // namespace

Result<ModelOptions> ModelFiles::options(const std::string& name, const std::optional<std::string>& url) {
  auto file = catalog_.settings_file(name, url);
  if (!file) return file.error();
  if (!*file) return ModelOptions{};
  const loader::SettingsFile& found = **file;
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(found.relative);
  if (known != known_.end() && known->second.id == found.id) return known->second.options;
  auto options = read(found);
  if (known_.size() >= kMostKnown) known_.clear();
  known_.insert_or_assign(found.relative, Known{found.id, options});
  return options;
}

}  // namespace mme::server
