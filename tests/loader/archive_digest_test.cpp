// The digest of an archive: equal for equal content wherever it lies, another one for each thing that differs.
#include "loader/archive_digest.hpp"

#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/zip_writer.hpp"

namespace mme::loader {
namespace {

ZipDirectory archive(const std::string& root) {
  return {{{root + "data.pkl", 10, 10, 100, 0xFFFFFFFF, false},
           {root + "data/0", 400, 400, 200, 2, false},
           {root + "code/m.py", 70, 30, 700, 3, true}}};
}

std::string digest_of(const ZipDirectory& directory) {
  return archive_digest(directory, "m/");
}

}  // namespace

TEST_CASE("the digest is 32 hexadecimal digits, the same in every process") {
  CHECK(digest_of(archive("m/")) == "ae6880d55feb5e3ca3d6540e79cc3e89");
  CHECK(digest_of(archive("m/")) == archive_digest(archive("another_name/"), "another_name/"));
  ZipDirectory elsewhere = archive("m/");
  for (ZipEntry& entry : elsewhere.entries) entry.data_offset += 64;
  CHECK(digest_of(elsewhere) == digest_of(archive("m/")));
}

TEST_CASE("the digest tells everything apart that the directory says of the content") {
  std::set<std::string> digests{digest_of(archive("m/"))};
  const auto differs = [&](auto change) {
    ZipDirectory changed = archive("m/");
    change(changed.entries);
    CHECK(digests.insert(digest_of(changed)).second);
  };
  differs([](auto& entries) { entries[1].crc32 ^= 1; });
  differs([](auto& entries) { entries[1].crc32 ^= 0x80000000; });
  differs([](auto& entries) { entries[1].size += 1; });
  differs([](auto& entries) { entries[1].stored_size += 1; });
  differs([](auto& entries) { entries[1].deflated = true; });
  differs([](auto& entries) { entries[1].name = "m/data/1"; });
  differs([](auto& entries) { entries[1].name = "data/0"; });
  differs([](auto& entries) { entries.pop_back(); });
  differs([](auto& entries) { entries.push_back({"m/x", 0, 0, 0, 0, false}); });
  differs([](auto& entries) { std::swap(entries[0], entries[1]); });
}

TEST_CASE("a directory that was read has the digest of the same content under another root") {
  const auto read = [](const std::string& root) {
    const std::string bytes = test::ZipWriter().write({{root + "a", "hello"}, {root + "b", ""}});
    return read_zip_directory(bytes_in_memory(std::as_bytes(std::span(bytes)))).value();
  };
  CHECK(archive_digest(read("long_name_of_a_model/"), "long_name_of_a_model/") == archive_digest(read("m/"), "m/"));
}

}  // namespace mme::loader
