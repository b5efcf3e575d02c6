// Reads the central directory of a zip archive and checks everything it says against the file.
// Reads no member's content and inflates nothing; pure over a source of bytes, so that it can be fuzzed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/error.hpp"

namespace mme::loader {

struct ZipEntry {
  std::string name;
  std::uint64_t size = 0;         ///< bytes of content, as declared; equals stored_size unless deflated
  std::uint64_t stored_size = 0;  ///< bytes in the file
  std::uint64_t data_offset = 0;  ///< where the stored bytes begin in the file
  std::uint32_t crc32 = 0;        ///< as declared
  bool deflated = false;
};

/// A file by its size and a way to read it. `read` fills the whole span from that offset, or says false.
struct ByteSource {
  std::uint64_t size = 0;
  std::function<bool(std::uint64_t offset, std::span<std::byte> into)> read;
};
/// The bytes must outlive the source.
[[nodiscard]] ByteSource bytes_in_memory(std::span<const std::byte> bytes);

struct ZipDirectory {
  std::vector<ZipEntry> entries;  ///< in the order of the directory

  [[nodiscard]] const ZipEntry* find(std::string_view name) const noexcept;
  /// Sum of all contents, inflated.
  [[nodiscard]] std::uint64_t total_size() const noexcept;
};

/// Fails with model_broken unless: one disk, no encryption, methods stored or deflate, names unique and not empty,
/// every member whole inside the file and before the directory, no two members sharing bytes, local headers that agree
/// with the directory, sizes that the method can have. Costs one small read per member. internal: a read failed.
[[nodiscard]] Result<ZipDirectory> read_zip_directory(const ByteSource& source);

}  // namespace mme::loader
