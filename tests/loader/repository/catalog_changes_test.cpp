// The disk changes while we look at it: new, replaced, removed and half-written files.
#include <atomic>
#include <thread>
#include <vector>

#include "loader/repository/catalog.hpp"
#include "loader/repository/disk.hpp"
#include "loader/repository/settling.hpp"
#include "tests/loader/repository/temp_repository.hpp"
#include "tests/support/catch.hpp"

using namespace mme::loader;
using namespace std::chrono_literals;
using mme::test::TempRepository;
namespace fs = std::filesystem;

namespace {

std::string outcome(const Catalog& catalog, const std::string& name) {
  const auto spec = catalog.resolve(name, std::nullopt);
  return spec ? "found" : std::string(reason(spec.error().code));
}

disk::File look_at(const TempRepository& repository, std::string_view relative) {
  return disk::look_at_file(repository.root() / relative).value();
}

}  // namespace

TEST_CASE("files that come and go are noticed at once", "[catalog]") {
  TempRepository repository;
  const Catalog catalog(repository.root());
  CHECK(outcome(catalog, "m") == "model_unknown");
  repository.put("m.pt");
  CHECK(outcome(catalog, "m") == "found");
  CHECK(catalog.list().size() == 1);
  fs::remove(repository.root() / "m.pt");
  CHECK(outcome(catalog, "m") == "model_unknown");
  CHECK(catalog.list().empty());
  repository.put("m/1/model.pt");
  CHECK(catalog.resolve("m", std::nullopt)->version == "1");
  repository.put("m/2/model.pt");
  CHECK(catalog.resolve("m", std::nullopt)->version == "2");
}

TEST_CASE("a replaced file has another identity, also with equal size and time", "[catalog]") {
  TempRepository repository;
  const Catalog catalog(repository.root());
  repository.put("m.pt", "first");
  repository.age("m.pt");
  const auto first = catalog.resolve("m", std::nullopt);
  REQUIRE(first.has_value());
  CHECK(catalog.resolve("m", std::nullopt)->artifact == first->artifact);
  repository.put("incoming", "other");
  fs::last_write_time(repository.root() / "incoming", fs::last_write_time(repository.root() / "m.pt"));
  fs::rename(repository.root() / "incoming", repository.root() / "m.pt");
  const auto second = catalog.resolve("m", std::nullopt);
  REQUIRE(second.has_value());
  CHECK(second->artifact.size == first->artifact.size);
  CHECK(second->artifact.mtime_ns == first->artifact.mtime_ns);
  CHECK(second->artifact != first->artifact);
}

TEST_CASE("a copy under way is settling until its end is there", "[catalog][settling]") {
  TempRepository repository;
  const Catalog catalog(repository.root());
  repository.write("m.pt", "the first half of");
  CHECK(outcome(catalog, "m") == "settling");
  const auto all = catalog.list();
  REQUIRE(all.size() == 1);
  CHECK(all[0].error->code == ErrorCode::settling);
  repository.age("m.pt");  // the writer gave up; what is there is for the loader to judge
  CHECK(outcome(catalog, "m") == "found");
}

TEST_CASE("a complete file is settled from the first look", "[catalog][settling]") {
  TempRepository repository;
  repository.put("m.pt");
  CHECK(outcome(Catalog(repository.root()), "m") == "found");
}

TEST_CASE("a file that changes in place between two looks is settling for a while", "[settling]") {
  TempRepository repository;
  repository.put("m.pt");
  const auto written = fs::file_time_type::clock::to_sys(fs::last_write_time(repository.root() / "m.pt"));
  auto now = std::chrono::time_point_cast<SettlingWatch::WallClock::duration>(written);
  SettlingWatch watch([&] { return now; });
  CHECK_FALSE(watch.is_settling(look_at(repository, "m.pt")));
  repository.append("m.pt", "more" + TempRepository::end_record());
  now += 100ms;
  CHECK(watch.is_settling(look_at(repository, "m.pt")));
  CHECK(watch.is_settling(look_at(repository, "m.pt")));  // until it is left alone, not until the next look
  now += SettlingWatch::kYoung + 100ms;
  CHECK_FALSE(watch.is_settling(look_at(repository, "m.pt")));
}

TEST_CASE("a file put in place by rename is settled", "[settling]") {
  TempRepository repository;
  SettlingWatch watch;
  repository.put("m.pt", "first");
  CHECK_FALSE(watch.is_settling(look_at(repository, "m.pt")));
  repository.put("incoming", "the second one");
  fs::rename(repository.root() / "incoming", repository.root() / "m.pt");
  CHECK_FALSE(watch.is_settling(look_at(repository, "m.pt")));
}

TEST_CASE("a file dated in the future is not kept away for ever", "[settling]") {
  TempRepository repository;
  repository.write("m.pt", "anything");
  fs::last_write_time(repository.root() / "m.pt", fs::file_time_type::clock::now() + 24h);
  CHECK_FALSE(SettlingWatch().is_settling(look_at(repository, "m.pt")));
}

TEST_CASE("looks from many threads while files change give whole answers", "[catalog]") {
  TempRepository repository;
  Catalog catalog(repository.root());
  repository.put("m.pt");
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        if (outcome(catalog, "m") != "found") ++wrong;
        (void)catalog.resolve("alias", std::nullopt);
        (void)catalog.list();
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    repository.put("incoming", std::string(static_cast<std::size_t>(i), 'x'));
    fs::rename(repository.root() / "incoming", repository.root() / "m.pt");
    catalog.register_alias("alias", "m.pt");
    catalog.unregister_alias("alias");
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  CHECK(wrong == 0);
}
