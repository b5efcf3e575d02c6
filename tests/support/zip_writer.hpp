// Writes small zip archives byte by byte, right or wrong on purpose.
// Compresses nothing and computes no checksums; for tests of whoever reads archives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mme::test {

struct ZipMember {
  std::string name;
  std::string content;
  std::uint16_t method = 0;
  /// What the central directory says instead of the truth; UINT64_MAX: the truth.
  std::uint64_t declared_size = UINT64_MAX;
  std::uint64_t declared_stored = UINT64_MAX;
  std::uint64_t declared_offset = UINT64_MAX;
  std::string local_name{};  ///< in the local header instead of `name`; empty: the same
  std::uint16_t flags = 0;
  bool zip64 = false;  ///< sizes and offset go into the extra field
};

class ZipWriter {
 public:
  std::string write(const std::vector<ZipMember>& members, bool zip64_end = false) {
    out_.clear();
    std::string directory;
    for (const ZipMember& member : members) directory += add(member);
    const std::uint64_t start = out_.size();
    out_ += directory;
    if (zip64_end) end64(start, directory.size(), members.size());
    number(out_, 0x06054b50, 4);
    number(out_, 0, 4);
    number(out_, zip64_end ? 0xFFFF : members.size(), 2);
    number(out_, zip64_end ? 0xFFFF : members.size(), 2);
    number(out_, zip64_end ? 0xFFFFFFFF : directory.size(), 4);
    number(out_, zip64_end ? 0xFFFFFFFF : start, 4);
    number(out_, 0, 2);
    return out_;
  }

  static void number(std::string& to, std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) to += static_cast<char>(i < 8 ? value >> (8 * i) & 0xFF : 0);
  }

 private:
  std::string add(const ZipMember& member) {
    const auto or_truth = [](std::uint64_t declared, std::uint64_t truth) {
      return declared == UINT64_MAX ? truth : declared;
    };
    const std::uint64_t offset = or_truth(member.declared_offset, out_.size());
    const std::uint64_t size = or_truth(member.declared_size, member.content.size());
    const std::uint64_t stored = or_truth(member.declared_stored, member.content.size());
    const std::string& local = member.local_name.empty() ? member.name : member.local_name;
    number(out_, 0x04034b50, 4);
    number(out_, 20, 2);
    number(out_, member.flags, 2);
    number(out_, member.method, 2);
    number(out_, 0, 8);  // time, date, checksum
    number(out_, member.content.size(), 4);
    number(out_, member.content.size(), 4);
    number(out_, local.size(), 2);
    number(out_, 0, 2);
    out_ += local + member.content;
    return entry(member, offset, size, stored);
  }

  static std::string entry(const ZipMember& member, std::uint64_t offset, std::uint64_t size, std::uint64_t stored) {
    std::string text;
    number(text, 0x02014b50, 4);
    number(text, 20, 2);
    number(text, 20, 2);
    number(text, member.flags, 2);
    number(text, member.method, 2);
    number(text, 0, 8);
    number(text, member.zip64 ? 0xFFFFFFFF : stored, 4);
    number(text, member.zip64 ? 0xFFFFFFFF : size, 4);
    number(text, member.name.size(), 2);
    number(text, member.zip64 ? 28 : 0, 2);
    number(text, 0, 2 + 2 + 2 + 4);  // comment, disk, attributes
    number(text, member.zip64 ? 0xFFFFFFFF : offset, 4);
    text += member.name;
    if (member.zip64) {
      number(text, 1, 2);
      number(text, 24, 2);
      number(text, size, 8);
      number(text, stored, 8);
      number(text, offset, 8);
    }
    return text;
  }

  void end64(std::uint64_t start, std::uint64_t size, std::uint64_t count) {
    const std::uint64_t at = out_.size();
    number(out_, 0x06064b50, 4);
    number(out_, 44, 8);
    number(out_, 0, 2 + 2 + 4 + 4);
    number(out_, count, 8);
    number(out_, count, 8);
    number(out_, size, 8);
    number(out_, start, 8);
    number(out_, 0x07064b50, 4);
    number(out_, 0, 4);
    number(out_, at, 8);
    number(out_, 1, 4);
  }

  std::string out_;
};

}  // namespace mme::test
