// Files that change under a map: whoever writes waits until the map needs the file no more, and what is lost is known.
#include "loader/torch/file_lease.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "loader/torch/weight_map.hpp"
#include "tests/support/catch.hpp"
#include "tests/torch/counting_grant.hpp"
#include "tests/torch/file_fixture.hpp"

namespace mme::test {
namespace {

using loader::ArtifactFile;
using loader::FileLease;
using loader::MapPolicy;
using loader::page_size;
using loader::WeightMap;

struct MappedFixture {
  explicit MappedFixture(std::size_t page_count, MapPolicy policy = MapPolicy::leased)
      : pages(page_count), fixture(std::string(page_count * page_size(), 'a')), file(fixture.open()) {
    made = WeightMap::make(*file, {{0, pages * page_size()}}, policy);
  }

  /// Every byte as it was when it was mapped.
  [[nodiscard]] bool is_whole() const {
    const auto* bytes = reinterpret_cast<const volatile char*>(made.map->at(0));
    for (std::size_t at = 0; at < pages * page_size(); at += 64) {
      if (bytes[at] != 'a') return false;
    }
    return true;
  }

  std::size_t pages;
  FileFixture fixture;
  std::unique_ptr<ArtifactFile> file;
  WeightMap::Made made;
};

void overwrite(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC | flags);
  REQUIRE(descriptor >= 0);
  const std::string other(3 * page_size(), 'z');
  CHECK(write(descriptor, other.data(), other.size()) == static_cast<ssize_t>(other.size()));
  close(descriptor);
}

/// Not every file system has leases; there, everything is copied and nothing is left to test.
bool leases_work() {
  const MappedFixture one(1);
  if (one.made.map == nullptr) WARN("no read leases on this file system");
  return one.made.map != nullptr;
}

}  // namespace

TEST_CASE("C14: a file that is overwritten or cut short under a map is copied out first") {
  if (!leases_work()) return;
  for (const int flags : {0, O_TRUNC}) {
    MappedFixture one(64);
    const auto map = one.made.map;
    CHECK(FileLease::held() == 1);
    CHECK_FALSE(map->detached());
    overwrite(one.fixture.path(), flags);
    CHECK(map->detached());
    CHECK_FALSE(map->lost());
    CHECK(one.is_whole());
    CHECK_FALSE(one.fixture.is_mapped());
    CHECK(map->bytes() == 64 * page_size());
    CHECK(WeightMap::bytes_in_files() == 0);
    overwrite(one.fixture.path(), O_TRUNC);  // nobody holds it any more
    CHECK(one.is_whole());
  }
  CHECK(FileLease::held() == 0);
}

TEST_CASE("C14: renaming over a mapped file and deleting it change nothing") {
  if (!leases_work()) return;
  MappedFixture one(8);
  const FileFixture other(std::string(page_size(), 'z'));
  std::filesystem::rename(other.path(), one.fixture.path());
  CHECK(one.is_whole());
  std::filesystem::remove(one.fixture.path());
  CHECK(one.is_whole());
  CHECK_FALSE(one.made.map->detached());
}

TEST_CASE("readers never see anything but the bytes that were mapped while they are copied out") {
  if (!leases_work()) return;
  for (int round = 0; round < 5; ++round) {
    MappedFixture one(8192);  // 32 MiB: two portions
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i) {
      readers.emplace_back([&] {
        do wrong += one.is_whole() ? 0 : 1;
        while (!done);
      });
    }
    overwrite(one.fixture.path(), O_TRUNC);
    done = true;
    for (auto& reader : readers) reader.join();
    CHECK(wrong == 0);
    CHECK(one.is_whole());
    CHECK_FALSE(one.made.map->lost());
  }
}

TEST_CASE("a file that somebody has open for writing is not mapped, unless its owner is trusted") {
  const FileFixture fixture(std::string(page_size(), 'a'));
  const int writer = open(fixture.path().c_str(), O_WRONLY | O_CLOEXEC);
  const auto file = fixture.open();
  const auto leased = WeightMap::make(*file, {{0, 64}}, MapPolicy::leased);
  CHECK(leased.map == nullptr);
  CHECK(std::string(leased.why_not) == "no read lease");
  CHECK(WeightMap::make(*file, {{0, 64}}, MapPolicy::trusted).map != nullptr);
  CHECK(std::string(WeightMap::make(*file, {{0, 64}}, MapPolicy::off).why_not) == "mapping is off");
  close(writer);
}

TEST_CASE("pages that a trusted file lost are zeros, and the map says so") {
  for (const std::size_t left : {std::size_t{0}, std::size_t{3}}) {
    const FileFixture fixture(std::string(16 * page_size(), 'a'));
    const int writer = open(fixture.path().c_str(), O_WRONLY | O_CLOEXEC);
    const auto file = fixture.open();
    const auto map = WeightMap::make(*file, {{0, 16 * page_size()}}, MapPolicy::trusted).map;
    REQUIRE(map);
    const auto byte = [&](std::size_t page) {
      return *static_cast<const volatile std::byte*>(map->at(page * page_size()));
    };
    CHECK(byte(9) == std::byte{'a'});
    CHECK(ftruncate(writer, static_cast<off_t>(left * page_size())) == 0);
    CHECK_FALSE(map->lost());
    std::vector<std::thread> readers;
    for (std::size_t page = left; page < 16; page += 5) readers.emplace_back([&byte, page] { byte(page); });
    for (auto& reader : readers) reader.join();
    CHECK(map->lost());
    CHECK(byte(left) == std::byte{0});
    CHECK(byte(15) == std::byte{0});
    if (left > 0) CHECK(byte(left - 1) == std::byte{'a'});
    close(writer);
  }
}

TEST_CASE("maps come and go while their files are cut short") {
  if (!leases_work()) return;
  const std::size_t rounds = std::getenv("MME_LONG") != nullptr ? 2000 : 100;
  std::vector<std::thread> workers;
  std::atomic<int> wrong{0};
  for (int worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&, worker] {
      for (std::size_t round = 0; round < rounds; ++round) {
        const MappedFixture one(16, MapPolicy::trusted);
        if (one.made.map == nullptr) {
          ++wrong;
          continue;
        }
        std::thread writer;
        if (round % 3 != 0) writer = std::thread([&] { std::filesystem::resize_file(one.fixture.path(), 0); });
        if (worker != 0 && !one.is_whole()) ++wrong;
        if (writer.joinable()) writer.join();
        if (one.made.map->lost()) ++wrong;
      }
    });
  }
  for (auto& worker : workers) worker.join();
  CHECK(wrong == 0);
  CHECK(FileLease::held() == 0);
}

}  // namespace mme::test
