#include "loader/zip_directory.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_set>

namespace mme::loader {
namespace {

constexpr std::uint32_t end_mark = 0x06054b50;
constexpr std::uint32_t end64_mark = 0x06064b50;
constexpr std::uint32_t locator64_mark = 0x07064b50;
constexpr std::uint32_t entry_mark = 0x02014b50;
constexpr std::uint32_t local_mark = 0x04034b50;
constexpr std::size_t end_size = 22, locator64_size = 20, end64_size = 56, entry_size = 46, local_size = 30;
constexpr std::uint64_t longest_directory = std::uint64_t{256} << 20;
constexpr std::uint64_t best_deflate_ratio = 1032;  // nothing deflates better

Error broken(std::string what) {
  return fail(ErrorCode::model_broken, "not a usable model archive: " + std::move(what));
}
Error unreadable() {
  return fail(ErrorCode::internal, "the model archive could not be read");
}

/// Little-endian fields of a record; reading beyond its end yields 0, so callers check lengths first.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  [[nodiscard]] T at(std::size_t offset) const noexcept {
    T value{};
    if (offset + sizeof(T) <= bytes_.size()) std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  [[nodiscard]] std::uint16_t u16(std::size_t offset) const noexcept { return at<std::uint16_t>(offset); }
  [[nodiscard]] std::uint32_t u32(std::size_t offset) const noexcept { return at<std::uint32_t>(offset); }
  [[nodiscard]] std::uint64_t u64(std::size_t offset) const noexcept { return at<std::uint64_t>(offset); }

 private:
  std::span<const std::byte> bytes_;
};

struct Bounds {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
};

/// One member as the directory has it; the offset is that of its local header.
struct Listed {
  ZipEntry entry;
  std::uint64_t header_offset = 0;
};

Result<Bounds> read_end64(const ByteSource& source, std::uint64_t end_offset) {
  std::array<std::byte, locator64_size> locator{};
  if (end_offset < locator64_size) return broken("its zip64 directory is missing");
  if (!source.read(end_offset - locator64_size, locator)) return unreadable();
  if (Fields(locator).u32(0) != locator64_mark) return broken("its zip64 directory is missing");
  const auto offset = Fields(locator).u64(8);
  std::array<std::byte, end64_size> record{};
  if (offset > source.size || source.size - offset < end64_size) return broken("its zip64 directory is out of bounds");
  if (!source.read(offset, record)) return unreadable();
  const Fields fields(record);
  if (fields.u32(0) != end64_mark) return broken("its zip64 directory is missing");
  return Bounds{fields.u64(48), fields.u64(40), fields.u64(32)};
}

std::optional<std::size_t> find_end(std::span<const std::byte> tail) {
  for (std::size_t at = tail.size() - end_size + 1; at-- > 0;) {
    if (Fields(tail.subspan(at)).u32(0) == end_mark) return at;
  }
  return std::nullopt;
}

Result<Bounds> find_directory(const ByteSource& source) {
  if (source.size == 0) return broken("the file is empty");
  if (source.size < end_size) return broken("the file is no zip archive");
  std::vector<std::byte> tail(std::min<std::uint64_t>(source.size, end_size + 0xFFFF));
  if (!source.read(source.size - tail.size(), tail)) return unreadable();
  const auto at = find_end(tail);
  if (!at) return broken("the file is no zip archive, or it is cut off");
  const Fields end(std::span<const std::byte>(tail).subspan(*at));
  const std::uint64_t end_offset = source.size - tail.size() + *at;
  Bounds bounds{end.u32(16), end.u32(12), end.u16(10)};
  if (bounds.offset == 0xFFFFFFFF || bounds.size == 0xFFFFFFFF || bounds.entries == 0xFFFF) {
    const auto wide = read_end64(source, end_offset);
    if (!wide) return wide.error();
    bounds = *wide;
  }
  if (bounds.offset > end_offset || bounds.size > end_offset - bounds.offset || bounds.size > longest_directory) {
    return broken("its zip directory is out of bounds");
  }
  if (bounds.entries > bounds.size / entry_size) return broken("its zip directory lists more members than it has");
  return bounds;
}

/// Replaces the fields that are 0xFFFFFFFF by those of the zip64 extra field, which has them in this order.
bool widen(Listed& listed, std::span<const std::byte> extra) {
  const auto needed = [](std::uint64_t value) { return value == 0xFFFFFFFF; };
  while (extra.size() >= 4) {
    const auto length = Fields(extra).u16(2);
    if (extra.size() - 4 < length) return false;
    if (Fields(extra).u16(0) == 1) {
      const Fields fields(extra.subspan(4, length));
      std::size_t at = 0;
      for (std::uint64_t* value : {&listed.entry.size, &listed.entry.stored_size, &listed.header_offset}) {
        if (!needed(*value)) continue;
        if (at + 8 > length) return false;
        *value = fields.u64(at);
        at += 8;
      }
      return true;
    }
    extra = extra.subspan(4 + length);
  }
  return !needed(listed.entry.size) && !needed(listed.entry.stored_size) && !needed(listed.header_offset);
}

std::optional<Error> check_sizes(const ZipEntry& entry) {
  if (!entry.deflated && entry.size != entry.stored_size) return broken("a stored member declares two sizes");
  if (entry.deflated && entry.size / best_deflate_ratio > entry.stored_size) {
    return broken("a compressed member declares more than it can hold");
  }
  return std::nullopt;
}

Result<Listed> read_entry(std::span<const std::byte>& rest) {
  const Fields fields(rest);
  if (rest.size() < entry_size || fields.u32(0) != entry_mark) return broken("its zip directory is damaged");
  const std::size_t name = fields.u16(28), extra = fields.u16(30), comment = fields.u16(32);
  if (rest.size() - entry_size < name + extra + comment) return broken("its zip directory is damaged");
  if ((fields.u16(8) & 1) != 0) return broken("it is encrypted");
  const auto method = fields.u16(10);
  if (method != 0 && method != 8) return broken("it is compressed by an unknown method");
  if (fields.u16(34) != 0 && fields.u16(34) != 0xFFFF) return broken("it is one part of several");
  Listed listed;
  listed.entry.name.assign(reinterpret_cast<const char*>(rest.data()) + entry_size, name);
  listed.entry.deflated = method == 8;
  listed.entry.crc32 = fields.u32(16);
  listed.entry.stored_size = fields.u32(20);
  listed.entry.size = fields.u32(24);
  listed.header_offset = fields.u32(42);
  if (name == 0) return broken("a member has no name");
  if (!widen(listed, rest.subspan(entry_size + name, extra))) return broken("its zip directory is damaged");
  if (auto error = check_sizes(listed.entry)) return *error;
  rest = rest.subspan(entry_size + name + extra + comment);
  return listed;
}

/// The local header says where the content begins, and must name the same member.
std::optional<Error> locate(const ByteSource& source, std::uint64_t limit, Listed& listed) {
  const std::string& name = listed.entry.name;
  std::vector<std::byte> header(local_size + name.size());
  if (listed.header_offset > limit || limit - listed.header_offset < header.size()) {
    return broken("a member lies outside the file");
  }
  if (!source.read(listed.header_offset, header)) return unreadable();
  const Fields fields(header);
  if (fields.u32(0) != local_mark || fields.u16(26) != name.size() ||
      std::memcmp(header.data() + local_size, name.data(), name.size()) != 0 ||
      (fields.u16(8) == 8) != listed.entry.deflated) {
    return broken("a member's header does not agree with the zip directory");
  }
  listed.entry.data_offset = listed.header_offset + header.size() + fields.u16(28);
  if (listed.entry.data_offset > limit || limit - listed.entry.data_offset < listed.entry.stored_size) {
    return broken("a member lies outside the file");
  }
  return std::nullopt;
}

std::optional<Error> check_apart(std::vector<Listed>& members) {
  std::vector<const Listed*> order;
  order.reserve(members.size());
  for (const Listed& member : members) order.push_back(&member);
  std::ranges::sort(order, {}, [](const Listed* member) { return member->header_offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const ZipEntry& before = order[i - 1]->entry;
    if (before.data_offset + before.stored_size > order[i]->header_offset) return broken("two members overlap");
  }
  std::unordered_set<std::string_view> names;
  for (const Listed& member : members) {
    if (!names.insert(member.entry.name).second) return broken("two members have one name");
  }
  return std::nullopt;
}

}  // namespace

ByteSource bytes_in_memory(std::span<const std::byte> bytes) {
  return {bytes.size(), [bytes](std::uint64_t offset, std::span<std::byte> into) {
            if (offset > bytes.size() || bytes.size() - offset < into.size()) return false;
            if (!into.empty()) std::memcpy(into.data(), bytes.data() + offset, into.size());
            return true;
          }};
}

const ZipEntry* ZipDirectory::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(entries, name, &ZipEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

std::uint64_t ZipDirectory::total_size() const noexcept {
  std::uint64_t total = 0;
  for (const ZipEntry& entry : entries) {
    if (__builtin_add_overflow(total, entry.size, &total)) return UINT64_MAX;
  }
  return total;
}

Result<ZipDirectory> read_zip_directory(const ByteSource& source) {
  const auto bounds = find_directory(source);
  if (!bounds) return bounds.error();
  std::vector<std::byte> raw(bounds->size);
  if (!source.read(bounds->offset, raw)) return unreadable();
  std::vector<Listed> members;
  members.reserve(bounds->entries);
  std::span<const std::byte> rest(raw);
  for (std::uint64_t i = 0; i < bounds->entries; ++i) {
    auto listed = read_entry(rest);
    if (!listed) return listed.error();
    if (auto error = locate(source, bounds->offset, *listed)) return *error;
    members.push_back(std::move(*listed));
  }
  if (auto error = check_apart(members)) return *error;
  ZipDirectory directory;
  directory.entries.reserve(members.size());
  for (Listed& member : members) directory.entries.push_back(std::move(member.entry));
  return directory;
}

}  // namespace mme::loader
