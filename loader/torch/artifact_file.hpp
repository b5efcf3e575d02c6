// An open model file that is provably the artifact it was looked up as.
// Only reads; knows nothing of what is in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "loader/error.hpp"
#include "loader/model.hpp"
#include "loader/zip_directory.hpp"

namespace mme::loader {

class ArtifactFile {
 public:
  /// Fails with settling when the file is gone or is no longer what `id` says; internal when it cannot be opened.
  static Result<std::unique_ptr<ArtifactFile>> open(const ArtifactId& id);
  ~ArtifactFile();
  ArtifactFile(const ArtifactFile&) = delete;
  ArtifactFile& operator=(const ArtifactFile&) = delete;

  [[nodiscard]] std::uint64_t size() const noexcept { return id_.size; }
  /// Fills all of `into`, or says false; false for an I/O error also sets failed().
  [[nodiscard]] bool read(std::uint64_t offset, std::span<std::byte> into) const noexcept;
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  /// Whether the file still is what it was when it was opened.
  [[nodiscard]] bool unchanged() const noexcept;
  /// For maps of the file; it stays the file's own.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Must not outlive the file.
  [[nodiscard]] ByteSource source() const;

 private:
  ArtifactFile(int descriptor, const ArtifactId& id) : descriptor_(descriptor), id_(id) {}

  int descriptor_;
  ArtifactId id_;
  mutable std::atomic<bool> failed_{false};
};

}  // namespace mme::loader
