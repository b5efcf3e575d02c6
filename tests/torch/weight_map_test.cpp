// Which pages hold weights, and who pays for the parts of a map until when.
#include "loader/torch/weight_map.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "loader/torch/page_ranges.hpp"
#include "loader/torch/weight_run.hpp"
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
using loader::WeightRun;

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

TEST_CASE("a map shows the file's bytes and keeps writes to itself") {
  const std::size_t page = loader::page_size();
  std::string content(10 * page, 'a');
  content[7 * page + 64] = 'b';
  const FileFixture fixture(content);
  const auto file = fixture.open();
  auto map = WeightMap::make(*file, {{page, 10}, {7 * page + 64, 100}}, MapPolicy::trusted).map;
  REQUIRE(map);
  CHECK(map->bytes() == 2 * page);
  CHECK(fixture.is_mapped());
  CHECK(WeightMap::bytes_in_files() == 2 * page);
  CHECK(*map->at(7 * page + 64) == std::byte{'b'});
  CHECK(*map->at(page) == std::byte{'a'});
  *map->at(page) = std::byte{'z'};
  CHECK(fixture.content() == content);
  map.reset();
  CHECK_FALSE(fixture.is_mapped());
  CHECK(WeightMap::bytes_in_files() == 0);
  CHECK(WeightMap::make(*file, {}, MapPolicy::trusted).map == nullptr);
}

TEST_CASE("parts of a map are given back one by one, with the pages that nobody else needs") {
  const std::size_t page = loader::page_size();
  const FileFixture fixture(std::string(20 * page, 'a'));
  const auto file = fixture.open();
  // The second begins in the last page of the first, and ends in the first page of the third.
  const Ranges parts{{0, 4 * page + 10}, {4 * page + 64, 4 * page}, {8 * page + 128, 6 * page}, {18 * page, page}};
  const std::vector<std::vector<std::size_t>> orders{{0, 1, 2, 3}, {1, 0, 3, 2}, {3, 2, 1, 0}, {1, 2, 0, 3}};
  for (const auto& order : orders) {
    const auto map = WeightMap::make(*file, parts, MapPolicy::trusted).map;
    REQUIRE(map);
    std::stop_source stop;
    REQUIRE(map->prefault(stop.get_token()));
    std::vector<bool> needed(parts.size(), true);
    for (const std::size_t gone : order) {
      map->give_back(gone);
      needed[gone] = false;
      Ranges left;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (needed[i]) left.push_back(parts[i]);
      }
      const auto pages = loader::pages_of(left);
      CHECK(map->bytes() == loader::total_size(pages));
      CHECK(WeightMap::bytes_in_files() == loader::total_size(pages));
      CHECK(mapped_bytes(fixture.path(), "Rss") <= loader::total_size(pages) + 3 * page);
      for (const ByteRange& range : left) {
        CHECK(*map->at(range.offset) == std::byte{'a'});
        CHECK(*map->at(range.end() - 1) == std::byte{'a'});
      }
    }
    CHECK(mapped_bytes(fixture.path(), "Rss") == 0);
  }
}

TEST_CASE("a run is paid for by its load, then by the cache, and its pages go with its last holder") {
  const std::size_t before = MemoryAccount::live();
  const std::size_t page = loader::page_size();
  const FileFixture fixture(std::string(4 * page, 'a'));
  const auto file = fixture.open();
  auto map = WeightMap::make(*file, {{0, page}, {2 * page, page}}, MapPolicy::trusted).map;
  const auto grant = std::make_shared<CountingGrant>();
  auto account = MemoryAccount::open(grant, 0, 1);
  auto first = std::make_shared<WeightRun>(map, 0, Ranges{{0, page}}, 2 * page);
  auto second = std::make_shared<WeightRun>(map, 1, Ranges{{2 * page, page}}, 2 * page);
  map.reset();
  REQUIRE(first->charge_to(*account));
  REQUIRE(second->charge_to(*account));
  CHECK(grant->held() == 4 * page);
  CHECK(first->holds_the_same_as(*second));
  *second->data(0) = std::byte{'b'};
  CHECK_FALSE(first->holds_the_same_as(*second));
  first->uncharge();
  CHECK(account->close_load(std::make_shared<loader::KeptBytes>()).tensors == 2 * page);
  account.reset();
  CHECK(MemoryAccount::live() == before + 1);
  const auto third = first;
  first.reset();
  CHECK(WeightMap::bytes_in_files() == 2 * page);
  second.reset();
  CHECK(MemoryAccount::live() == before);
  CHECK(WeightMap::bytes_in_files() == page);
  CHECK(fixture.is_mapped());
}

TEST_CASE("a run that there is no room for is not paid for") {
  const FileFixture fixture(std::string(loader::page_size(), 'a'));
  const auto file = fixture.open();
  const auto account = MemoryAccount::open(std::make_shared<CountingGrant>(0, 10), 0, 1);
  WeightRun run(WeightMap::make(*file, {{0, 64}}, MapPolicy::trusted).map, 0, {{0, 64}}, 64);
  CHECK_FALSE(run.charge_to(*account));
  CHECK(account->refused());
  CHECK(account->bytes().tensors == 0);
}

TEST_CASE("a write to a sealed map is let through, told, and its account known") {
  const std::size_t page = loader::page_size();
  const auto account = MemoryAccount::open(std::make_shared<CountingGrant>(), 0, 1);
  const auto other = MemoryAccount::open(std::make_shared<CountingGrant>(), 0, 1);
  for (const bool known : {true, false}) {
    for (const bool detached : {false, true}) {
      const FileFixture fixture(std::string(8 * page, 'a'));
      const auto file = fixture.open();
      const auto map = WeightMap::make(*file, {{0, 2 * page}, {4 * page, 4 * page}}, MapPolicy::trusted).map;
      const auto neighbour = WeightMap::make(*file, {{0, 8 * page}}, MapPolicy::trusted).map;
      map->seal();
      neighbour->seal();
      std::stop_source stop;
      CHECK(map->prefault(stop.get_token()));
      if (detached) map->detach();
      CHECK(*map->at(5 * page) == std::byte{'a'});
      CHECK_FALSE(map->lost());
      {
        const loader::AccountScope scope(known ? account.get() : nullptr);
        for (std::size_t at = 4 * page; at < 8 * page; at += page) *map->at(at) = std::byte{'b'};
      }
      CHECK(*map->at(5 * page) == std::byte{'b'});
      CHECK(map->lost());
      CHECK(map->written());
      CHECK(map->may_be_written_by(*account));
      CHECK(map->may_be_written_by(*other) != known);
      CHECK_FALSE(neighbour->lost());
      CHECK(*neighbour->at(5 * page) == std::byte{'a'});
    }
  }
}

TEST_CASE("a fault that is none of the maps' ends the process as it would have") {
  const FileFixture fixture(std::string(loader::page_size(), 'a'));
  const auto file = fixture.open();
  const auto map = WeightMap::make(*file, {{0, 64}}, MapPolicy::trusted).map;
  map->seal();
  void* forbidden = mmap(nullptr, loader::page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(forbidden != MAP_FAILED);
  const pid_t child = fork();
  if (child == 0) {
    close(STDOUT_FILENO);  // whoever had the signal before reports the end of a test that did not end
    close(STDERR_FILENO);
    alarm(20);  // should the handler come back for ever
    *static_cast<volatile char*>(forbidden) = 1;
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK_FALSE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  if (WIFSIGNALED(status)) CHECK(WTERMSIG(status) == SIGSEGV);
  munmap(forbidden, loader::page_size());
}

TEST_CASE("prefault brings every page in and copies none") {
  const std::size_t page = loader::page_size();
  const FileFixture fixture(std::string(512 * page, 'a'));
  const auto file = fixture.open();
  const auto map = WeightMap::make(*file, {{0, 512 * page}}, MapPolicy::trusted).map;
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
  const std::vector<loader::ByteRange> ranges{{0, large * page}, {(large + 2) * page, 3 * page}};
  auto map = WeightMap::make(*file, ranges, MapPolicy::trusted).map;
  const std::weak_ptr<WeightMap> weak = map;
  WeightMap::prefault_beside(weak);
  CHECK(mapped_bytes(fixture.path(), "Rss") >= (large + 3) * page);
  CHECK(mapped_bytes(fixture.path(), "Anonymous") == 0);
  map.reset();
  WeightMap::prefault_beside(weak);  // there is nothing left to read
  CHECK_FALSE(fixture.is_mapped());
}

}  // namespace mme::test
