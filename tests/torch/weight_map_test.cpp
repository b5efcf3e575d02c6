// Which pages hold weights, and who pays for a map of them until when.
#include "loader/torch/weight_map.hpp"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

#include "loader/torch/page_ranges.hpp"
#include "tests/support/catch.hpp"
#include "tests/torch/counting_grant.hpp"
#include "tests/torch/file_fixture.hpp"

namespace mme::test {
namespace {

using loader::BlockKind;
using loader::ByteRange;
using loader::MapPolicy;
using loader::MemoryAccount;
using loader::WeightMap;

using Ranges = std::vector<ByteRange>;

}  // namespace

TEST_CASE("pages of ranges: whole, in order, each once") {
  const std::uint64_t page = loader::page_size();
  CHECK(loader::pages_of({}).empty());
  CHECK(loader::pages_of({{5, 0}}).empty());
  CHECK(loader::pages_of({{0, 1}}) == Ranges{{0, page}});
  CHECK(loader::pages_of({{page - 1, 2}}) == Ranges{{0, 2 * page}});
  CHECK(loader::pages_of({{9 * page, page}, {64, 64}, {128, 64}}) == Ranges{{0, page}, {9 * page, page}});
  CHECK(loader::pages_of({{64, 3 * page}, {page, 10}}) == Ranges{{0, 4 * page}});
  CHECK(loader::total_size({{0, 3}, {10, 4}}) == 7);
}

TEST_CASE("a map shows the file's bytes, keeps writes to itself, and is paid for until the last hold is gone") {
  const std::size_t page = loader::page_size();
  std::string content(10 * page, 'a');
  content[7 * page + 64] = 'b';
  const FileFixture fixture(content);
  const auto file = fixture.open();
  const auto grant = std::make_shared<CountingGrant>();
  auto account = MemoryAccount::open(grant, 0, 1);
  auto map = WeightMap::make(*file, {{7 * page + 64, 100}, {page, 10}}, MapPolicy::trusted, *account).map;
  REQUIRE(map);
  CHECK(map->bytes() == 2 * page);
  CHECK(account->bytes().tensors == 2 * page);
  CHECK(grant->held() == 2 * page);
  CHECK(fixture.is_mapped());
  CHECK(WeightMap::bytes_in_files() == 2 * page);
  CHECK(*map->at(7 * page + 64) == std::byte{'b'});
  CHECK(*map->at(page) == std::byte{'a'});
  *map->at(page) = std::byte{'z'};
  CHECK(fixture.content() == content);
  const auto second = map;
  map.reset();
  CHECK(account->bytes().tensors == 2 * page);
  CHECK(second.use_count() == 1);
}

TEST_CASE("a map outlives the load that made it, and its bytes are back when it is unmapped") {
  const std::size_t before = MemoryAccount::live();
  const FileFixture fixture(std::string(loader::page_size(), 'a'));
  const auto file = fixture.open();
  auto account = MemoryAccount::open(std::make_shared<CountingGrant>(), 0);
  auto map = WeightMap::make(*file, {{0, 64}}, MapPolicy::trusted, *account).map;
  CHECK(account->close_load(std::make_shared<loader::KeptBytes>()).tensors == loader::page_size());
  account.reset();
  CHECK(MemoryAccount::live() == before + 1);
  map.reset();
  CHECK(MemoryAccount::live() == before);
  CHECK_FALSE(fixture.is_mapped());
}

TEST_CASE("prefault brings every page in and copies none") {
  const std::size_t page = loader::page_size();
  const FileFixture fixture(std::string(512 * page, 'a'));
  const auto file = fixture.open();
  const auto account = MemoryAccount::open(nullptr, 0);
  const auto map = WeightMap::make(*file, {{0, 512 * page}}, MapPolicy::trusted, *account).map;
  CHECK(mapped_bytes(fixture.path(), "Rss") < 512 * page);
  std::stop_source stop;
  CHECK(map->prefault(stop.get_token()));
  CHECK(mapped_bytes(fixture.path(), "Rss") == 512 * page);
  CHECK(mapped_bytes(fixture.path(), "Anonymous") == 0);
  stop.request_stop();
  CHECK_FALSE(map->prefault(stop.get_token()));
}

TEST_CASE("prefault beside calls brings every page in, of all ranges, and ends with the map") {
  const std::size_t page = loader::page_size();
  const std::size_t large = (std::size_t{17} << 20) / page;  // three portions
  const FileFixture fixture(std::string((large + 10) * page, 'a'));
  const auto file = fixture.open();
  const auto account = MemoryAccount::open(nullptr, 0);
  const std::vector<loader::ByteRange> ranges{{0, large * page}, {(large + 2) * page, 3 * page}};
  auto map = WeightMap::make(*file, ranges, MapPolicy::trusted, *account).map;
  const std::weak_ptr<const WeightMap> weak = map;
  WeightMap::prefault_beside(weak);
  CHECK(mapped_bytes(fixture.path(), "Rss") >= (large + 3) * page);
  CHECK(mapped_bytes(fixture.path(), "Anonymous") == 0);
  map.reset();
  WeightMap::prefault_beside(weak);  // there is nothing left to read
  CHECK_FALSE(fixture.is_mapped());
}

TEST_CASE("no room for a map is said before anything is mapped") {
  const FileFixture fixture(std::string(3 * loader::page_size(), 'a'));
  const auto file = fixture.open();
  const auto account = MemoryAccount::open(std::make_shared<CountingGrant>(0, loader::page_size()), 0, 1);
  CHECK_THROWS_AS(WeightMap::make(*file, {{0, 2 * loader::page_size()}}, MapPolicy::trusted, *account), std::bad_alloc);
  CHECK(account->refused());
  CHECK(account->bytes().tensors == 0);
  CHECK_FALSE(fixture.is_mapped());
  CHECK(WeightMap::make(*file, {}, MapPolicy::trusted, *account).map == nullptr);
}

}  // namespace mme::test
