#include "loader/torch/artifact_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace mme::loader {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

bool is_same(int descriptor, const ArtifactId& id) {
  struct stat found {};
  if (fstat(descriptor, &found) != 0) return false;
  return S_ISREG(found.st_mode) && found.st_dev == id.device && found.st_ino == id.inode &&
         static_cast<std::uint64_t>(found.st_size) == id.size && nanoseconds(found.st_mtim) == id.mtime_ns &&
         nanoseconds(found.st_ctim) == id.ctime_ns;
}

}  // namespace

Result<std::unique_ptr<ArtifactFile>> ArtifactFile::open(const ArtifactId& id) {
  const int descriptor = ::open(id.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return fail(ErrorCode::settling, "the model file has just been removed");
    return fail(ErrorCode::internal, "the model file cannot be opened");
  }
  std::unique_ptr<ArtifactFile> file(new ArtifactFile(descriptor, id));
  if (!is_same(descriptor, id)) return fail(ErrorCode::settling, "the model file is being changed");
  return file;
}

ArtifactFile::~ArtifactFile() {
  ::close(descriptor_);
}

bool ArtifactFile::read(std::uint64_t offset, std::span<std::byte> into) const noexcept {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      if (got < 0) failed_ = true;
      return false;
    }
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool ArtifactFile::unchanged() const noexcept {
  return is_same(descriptor_, id_);
}

ByteSource ArtifactFile::source() const {
  return {size(), [this](std::uint64_t offset, std::span<std::byte> into) { return read(offset, into); }};
}

}  // namespace mme::loader
