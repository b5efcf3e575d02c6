#include "loader/repository/artifact_url.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "loader/guards.hpp"

namespace mme::loader {
namespace {

constexpr std::size_t kLongestUrl = 1024;

Error refused(std::string_view why) {
  return fail(ErrorCode::invalid_request, "url " + std::string(why));
}

bool is_odd(char c) noexcept {
  return c < 0x20 || c > 0x7e || c == '\\';
}

std::optional<std::string_view> below(std::string_view url, const std::vector<std::filesystem::path>& roots) {
  for (const auto& root : roots) {
    const std::string prefix = root == "/" ? "" : root.string();
    if (!url.starts_with(prefix)) continue;
    const std::string_view rest = url.substr(prefix.size());
    if (rest.empty() || rest.front() == '/') return rest;
  }
  return std::nullopt;
}

Result<std::string> clean(std::string_view path) {
  std::string result;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == ".." && guard("url_climbs")) return refused("must not hold '..'");
    if (part.front() == '.' && part != "..") return refused("must not name hidden files");
    if (!result.empty()) result += '/';
    result += part;
  }
  if (result.empty()) return refused("names the repository, not a model in it");
  return result;
}

}  // namespace

Result<std::string> relative_path_of(const std::string& url, const std::vector<std::filesystem::path>& roots) {
  if (url.empty() || url.size() > kLongestUrl) return refused("must have 1 to 1024 bytes");
  if (std::any_of(url.begin(), url.end(), is_odd)) return refused("must be a path of printable characters");
  if (url.find("://") != std::string::npos) return refused("must be a path in the repository, without a scheme");
  if (url.front() != '/') return clean(url);
  const auto rest = below(url, roots);
  if (guard("url_in_root") && !rest) return refused("leads outside the repository");
  return clean(rest.value_or(url));
}

}  // namespace mme::loader
