#include "tests/bench/unique_weights.hpp"

#include <cstdint>
#include <fstream>
#include <set>
#include <stdexcept>
#include <utility>

#include "loader/zip_directory.hpp"

namespace mme::bench {
namespace {

loader::ByteSource source_of(std::ifstream& file, const std::filesystem::path& path) {
  return {std::filesystem::file_size(path), [&file](std::uint64_t offset, std::span<std::byte> into) {
            file.seekg(static_cast<std::streamoff>(offset));
            file.read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size()));
            return file.good();
          }};
}

bool is_tensor(const std::string& record) {
  return record.find("/data/") != std::string::npos || record.find("/constants/") != std::string::npos;
}

}  // namespace

std::size_t unique_weight_bytes(const std::vector<std::filesystem::path>& files) {
  std::set<std::pair<std::uint64_t, std::uint32_t>> seen;
  std::size_t bytes = 0;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    const auto directory = loader::read_zip_directory(source_of(file, path));
    if (!directory) throw std::runtime_error(directory.error().message);
    for (const loader::ZipEntry& entry : directory->entries) {
      if (is_tensor(entry.name) && seen.emplace(entry.size, entry.crc32).second) bytes += entry.size;
    }
  }
  return bytes;
}

}  // namespace mme::bench
