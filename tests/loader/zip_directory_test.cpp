// Archives that say the truth are read, those that lie are refused, and no byte string makes the reader misbehave.
#include "loader/zip_directory.hpp"

#include <random>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/zip_writer.hpp"

namespace mme::loader {
namespace {

using test::ZipMember;
using test::ZipWriter;

Result<ZipDirectory> read(const std::string& bytes) {
  return read_zip_directory(bytes_in_memory(std::as_bytes(std::span(bytes))));
}

std::string problem_of(const std::string& bytes) {
  const auto directory = read(bytes);
  if (directory) return "";
  CHECK(directory.error().code == ErrorCode::model_broken);
  return directory.error().message;
}

std::string content(const std::string& bytes, const ZipEntry& entry) {
  return bytes.substr(entry.data_offset, entry.stored_size);
}

}  // namespace

TEST_CASE("members are found with their place in the file") {
  const std::string bytes = ZipWriter().write({{"m/a", "hello"}, {"m/b", ""}, {"m/c", "xyz"}});
  const auto directory = read(bytes).value();
  REQUIRE(directory.entries.size() == 3);
  CHECK(content(bytes, directory.entries[0]) == "hello");
  CHECK(content(bytes, *directory.find("m/c")) == "xyz");
  CHECK(directory.find("m/d") == nullptr);
  CHECK(directory.total_size() == 8);
}

TEST_CASE("zip64 fields are read where the short ones are full") {
  const std::string bytes = ZipWriter().write({{.name = "m/a", .content = "hello", .zip64 = true}}, true);
  const auto directory = read(bytes).value();
  CHECK(content(bytes, directory.entries.at(0)) == "hello");
}

TEST_CASE("a comment at the end does not hide the directory") {
  std::string bytes = ZipWriter().write({{"m/a", "hello"}});
  bytes += "a comment";
  CHECK(read(bytes).has_value());
}

TEST_CASE("what is no archive is named as that") {
  CHECK(problem_of("").find("empty") != std::string::npos);
  CHECK(problem_of("short").find("no zip") != std::string::npos);
  CHECK(problem_of(std::string(5000, 'x')).find("no zip") != std::string::npos);
  const std::string whole = ZipWriter().write({{"m/a", std::string(1000, 'a')}});
  CHECK(problem_of(whole.substr(0, whole.size() / 2)).find("cut off") != std::string::npos);
}

TEST_CASE("sizes that lie are refused") {
  const auto lie = [](ZipMember member) { return problem_of(ZipWriter().write({std::move(member), {"m/z", "z"}})); };
  CHECK(lie({.name = "a", .content = "x", .declared_size = 2}) != "");
  CHECK(lie({.name = "a", .content = "x", .declared_size = 1 << 30, .declared_stored = 1 << 30}) != "");
  CHECK(lie({.name = "a", .content = "xyz", .method = 8, .declared_size = std::uint64_t{2} << 30}) != "");
  CHECK(lie({.name = "a", .content = "x", .declared_size = ~0ULL - 1, .declared_stored = ~0ULL - 1, .zip64 = true}) !=
        "");
  CHECK(lie({.name = "a", .content = "x", .declared_offset = 1 << 20}) != "");
  CHECK(lie({.name = "a", .content = "x", .declared_offset = ~0ULL - 1, .zip64 = true}) != "");
  CHECK(lie({.name = "a", .content = "x", .declared_offset = 3}) != "");
}

TEST_CASE("headers that disagree, unknown methods and encryption are refused") {
  const auto odd = [](ZipMember member) { return problem_of(ZipWriter().write({std::move(member)})); };
  CHECK(odd({.name = "a", .content = "x", .local_name = "b"}) != "");
  CHECK(odd({.name = "a", .content = "x", .local_name = "ab"}) != "");
  CHECK(odd({.name = "a", .content = "x", .method = 12}) != "");
  CHECK(odd({.name = "a", .content = "x", .flags = 1}) != "");
  CHECK(odd({.name = "", .content = "x"}) != "");
}

TEST_CASE("two members with one name, or with the same bytes, are refused") {
  CHECK(problem_of(ZipWriter().write({{"a", "x"}, {"a", "y"}})).find("one name") != std::string::npos);
  std::vector<ZipMember> bomb(100, ZipMember{.name = "a", .content = "", .declared_offset = 0});
  bomb[0] = {.name = "a", .content = std::string(1000, 'x')};
  CHECK(problem_of(ZipWriter().write(bomb)).find("overlap") != std::string::npos);
}

TEST_CASE("a directory that lists more than it has is refused") {
  std::string bytes = ZipWriter().write({{"a", "x"}});
  bytes[bytes.size() - 12] = 9;
  CHECK(problem_of(bytes) != "");
  bytes = ZipWriter().write({{"a", "x"}});
  bytes[bytes.size() - 3] = 127;  // the directory's offset
  CHECK(problem_of(bytes) != "");
}

TEST_CASE("a read that fails is not the archive's fault") {
  const std::string bytes = ZipWriter().write({{"a", "x"}});
  ByteSource source = bytes_in_memory(std::as_bytes(std::span(bytes)));
  source.read = [](std::uint64_t, std::span<std::byte>) { return false; };
  CHECK(read_zip_directory(source).error().code == ErrorCode::internal);
}

TEST_CASE("a damaged archive is read within its bounds or refused") {
  const std::string good =
      ZipWriter().write({{"m/a", "hello"}, {.name = "m/b", .content = "world", .zip64 = true}, {"m/c", "xyz"}}, true);
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (int i = 0; i < 1 + round % 4; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (round % 7 == 0) bytes.resize(random() % bytes.size());
    const auto directory = read(bytes);
    if (!directory) continue;
    for (const ZipEntry& entry : directory->entries) {
      REQUIRE(entry.data_offset <= bytes.size());
      REQUIRE(entry.stored_size <= bytes.size() - entry.data_offset);
    }
  }
}

}  // namespace mme::loader
