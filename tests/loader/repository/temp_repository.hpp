// A folder of its own for each test case, with short ways to put artifacts into it.
// The artifacts are not models: the catalog never looks inside beyond the end record.
#pragma once

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace mme::test {

namespace fs = std::filesystem;

class TempRepository {
 public:
  TempRepository() {
    std::string path = (fs::temp_directory_path() / "mme-repository-XXXXXX").string();
    base_ = ::mkdtemp(path.data());
    fs::create_directories(root());
  }
  ~TempRepository() {
    std::error_code ignored;
    fs::remove_all(base_, ignored);
  }
  TempRepository(const TempRepository&) = delete;
  TempRepository& operator=(const TempRepository&) = delete;

  [[nodiscard]] fs::path root() const { return base_ / "models"; }
  [[nodiscard]] fs::path outside() const { return base_; }

  /// A complete file, as far as anybody can tell without loading it.
  void put(std::string_view relative, std::string_view content = "weights") const {
    write(relative, std::string(content) + end_record());
  }
  /// Exactly these bytes.
  void write(std::string_view relative, std::string_view bytes) const {
    const fs::path path = root() / relative;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  void append(std::string_view relative, std::string_view bytes) const {
    std::ofstream(root() / relative, std::ios::binary | std::ios::app) << bytes;
  }
  /// As if written an hour ago.
  void age(std::string_view relative) const {
    fs::last_write_time(root() / relative, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }

  static std::string end_record() { return std::string("PK\x05\x06", 4) + std::string(18, '\0'); }

 private:
  fs::path base_;
};

}  // namespace mme::test
