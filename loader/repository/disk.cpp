#include "loader/repository/disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace mme::loader::disk {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kZipEndBytes = 22;  // without a comment, which writers of models never add
constexpr std::string_view kZipEndMagic{"PK\x05\x06", 4};

bool is_showable(std::string_view name) noexcept {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

std::int64_t nanoseconds(const statx_timestamp& time) noexcept {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void add_entry(Folder& folder, const fs::directory_entry& entry) {
  std::string name = entry.path().filename().string();
  if (name.front() == '.' || !is_showable(name)) return;
  std::error_code error;
  if (entry.is_directory(error)) {
    folder.folders.push_back(std::move(name));
  } else if (is_artifact_name(name) && entry.is_regular_file(error)) {
    folder.artifacts.push_back(std::move(name));
  }
}

}  // namespace

bool is_artifact_name(std::string_view file_name) noexcept {
  const auto has_stem_before = [&](std::string_view suffix) {
    return file_name.size() > suffix.size() && file_name.ends_with(suffix);
  };
  return has_stem_before(".pt") || has_stem_before(".pth");
}

std::optional<Folder> read_folder(const fs::path& path) {
  std::error_code error;
  fs::directory_iterator entry(path, error);
  if (error) return std::nullopt;
  Folder folder;
  for (; entry != fs::directory_iterator(); entry.increment(error)) {
    if (error) return std::nullopt;
    add_entry(folder, *entry);
  }
  std::sort(folder.artifacts.begin(), folder.artifacts.end());
  std::sort(folder.folders.begin(), folder.folders.end());
  return folder;
}

std::optional<File> look_at_file(const fs::path& path) {
  struct statx status {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &status) != 0) return std::nullopt;
  if (!S_ISREG(status.stx_mode)) return std::nullopt;
  File file;
  file.id = ArtifactId{path.string(),
                       makedev(status.stx_dev_major, status.stx_dev_minor),
                       status.stx_ino,
                       status.stx_size,
                       nanoseconds(status.stx_mtime),
                       nanoseconds(status.stx_ctime)};
  if ((status.stx_mask & STATX_BTIME) != 0) file.birth_ns = nanoseconds(status.stx_btime);
  return file;
}

std::optional<fs::path> canonical(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::canonical(path, error);
  if (error) return std::nullopt;
  return result;
}

bool is_inside(const fs::path& root, const fs::path& path) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

bool ends_as_zip(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  std::array<char, kZipEndBytes> end{};
  const off_t size = ::lseek(file, 0, SEEK_END);
  const bool whole =
      size >= static_cast<off_t>(end.size()) &&
      ::pread(file, end.data(), end.size(), size - static_cast<off_t>(end.size())) == static_cast<ssize_t>(end.size());
  ::close(file);
  return whole && std::string_view(end.data(), end.size()).starts_with(kZipEndMagic);
}

}  // namespace mme::loader::disk
