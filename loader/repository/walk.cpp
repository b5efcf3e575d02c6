#include "loader/repository/walk.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/repository/disk.hpp"
#include "loader/repository/layout.hpp"
#include "loader/repository/names.hpp"

namespace mme::loader {
namespace {

namespace fs = std::filesystem;

class Walk {
 public:
  explicit Walk(fs::path root) : root_(std::move(root)) {}

  std::set<std::string> run() {
    visit("");
    return std::move(names_);
  }

 private:
  void visit(const std::string& relative) {
    if (relative.size() > kLongestModelName) return;
    const auto real = disk::canonical(root_ / relative);
    if (!real || is_open(*real)) return;
    if (!disk::is_inside(root_, *real)) return add(relative);  // listed with the reason why it is not served
    const auto folder = disk::read_folder(*real);
    if (!folder) return;
    open_.push_back(*real);
    add_files(relative, *folder);
    for (const auto& name : folder->folders) add_folder(relative, name);
    open_.pop_back();
  }

  // A symlink to a folder that is being visited would never end.
  [[nodiscard]] bool is_open(const fs::path& real) const {
    return std::find(open_.begin(), open_.end(), real) != open_.end();
  }

  void add_files(const std::string& relative, const disk::Folder& folder) {
    const bool is_root = relative.empty();
    if (!is_root && folder.artifacts.size() == 1) return add(relative);
    for (const auto& file : folder.artifacts) {
      const std::string path = is_root ? file : relative + '/' + file;
      if (belongs_to_folder(path)) {
        add(relative);
      } else if (path.ends_with(".pt")) {
        add(path.substr(0, path.size() - std::string_view(".pt").size()));
      }
    }
  }

  // A folder of digits is a version of the folder around it and holds no further names.
  void add_folder(const std::string& relative, const std::string& name) {
    if (!is_valid_version(name)) return visit(relative.empty() ? name : relative + '/' + name);
    if (!relative.empty()) add(relative);
  }

  void add(const std::string& name) {
    if (is_valid_model_name(name)) names_.insert(name);
  }

  fs::path root_;
  std::vector<fs::path> open_;  ///< canonical folders from the root to here
  std::set<std::string> names_;
};

}  // namespace

std::set<std::string> stored_names(const fs::path& root) {
  return Walk(root).run();
}

}  // namespace mme::loader
