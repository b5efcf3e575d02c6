#include "loader/archive_digest.hpp"

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid.hpp>
#include <cstdint>

namespace mme::loader {
namespace {

/// Fixed width, so that no two lists of members give the same text.
void append(std::string& text, std::uint64_t number) {
  for (int byte = 0; byte < 8; ++byte) text += static_cast<char>(number >> (8 * byte) & 0xFF);
}

}  // namespace

std::string archive_digest(const ZipDirectory& directory, std::string_view root) {
  std::string text;
  for (const ZipEntry& entry : directory.entries) {
    const bool inside = entry.name.starts_with(root);
    const std::string_view name = std::string_view(entry.name).substr(inside ? root.size() : 0);
    append(text, name.size());
    text += name;
    append(text, entry.size);
    append(text, entry.stored_size);
    append(text, std::uint64_t{entry.crc32} << 2 | (entry.deflated ? 2U : 0U) | (inside ? 1U : 0U));
  }
  // SHA-1 cut to a UUID: the hash that Boost has, of far more bits than checksums can tell apart.
  const boost::uuids::uuid hash = boost::uuids::name_generator_sha1(boost::uuids::uuid{})(text.data(), text.size());
  std::string digest;
  for (const std::uint8_t byte : hash) {
    for (const unsigned digit : {byte / 16U, byte % 16U}) digest += "0123456789abcdef"[digit];
  }
  return digest;
}

}  // namespace mme::loader
