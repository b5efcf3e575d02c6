// A file on disk for one test, and whether this process maps it.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "loader/torch/artifact_file.hpp"

namespace mme::test {

/// How many maps of this process show the file.
[[nodiscard]] inline int maps_of(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find(path) != std::string::npos ? 1 : 0;
  return found;
}

/// Bytes of this process's maps of the file, as the kernel counts them under a heading such as "Rss".
[[nodiscard]] inline std::size_t mapped_bytes(const std::string& path, const std::string& heading) {
  std::ifstream maps("/proc/self/smaps");
  std::size_t kilobytes = 0;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.back() != ':') {
      inside = line.find(path) != std::string::npos;
    } else if (inside && first == heading + ":") {
      std::size_t found = 0;
      words >> found;
      kilobytes += found;
    }
  }
  return kilobytes << 10;
}

[[nodiscard]] inline loader::ArtifactId artifact_of(const std::filesystem::path& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) throw std::runtime_error("no such file");
  const auto ns = [](const timespec& t) { return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; };
  return {file.string(),     found.st_dev,     found.st_ino, static_cast<std::uint64_t>(found.st_size),
          ns(found.st_mtim), ns(found.st_ctim)};
}

class FileFixture {
 public:
  explicit FileFixture(const std::string& content) {
    std::string pattern = (std::filesystem::temp_directory_path() / "mme_file_XXXXXX").string();
    const int descriptor = mkstemp(pattern.data());
    path_ = pattern;
    close(descriptor);
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~FileFixture() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  FileFixture(const FileFixture&) = delete;
  FileFixture& operator=(const FileFixture&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::unique_ptr<loader::ArtifactFile> open() const {
    return std::move(loader::ArtifactFile::open(artifact_of(path_)).value());
  }
  [[nodiscard]] bool is_mapped() const { return maps_of(path_) > 0; }
  [[nodiscard]] std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

}  // namespace mme::test
