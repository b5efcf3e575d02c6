// The file of what was learned: whole or nothing, whatever lies in its place, and never an error.
#include "server/app/learned_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cache/learned_text.hpp"
#include "server/app/log.hpp"
#include "tests/cache/bench.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "mme-learned-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
  void put(const std::string& text) const { std::ofstream(path / "learned", std::ios::binary) << text; }
  [[nodiscard]] std::string content() const {
    std::ifstream file(path / "learned", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path path;
};

cache::LearnedTable table_of(std::size_t bytes) {
  cache::LearnedFacts learned;
  (void)learned.measured(*learned.of(std::string(32, 'd')), {bytes, 0, 0, 0});
  return learned.table();
}

std::size_t bytes_in(const cache::LearnedTable& table) {
  return table.artifacts.empty() ? 0 : table.artifacts.front().own_bytes;
}

test::FakeArtifact artifact_with(const std::string& digest, std::size_t bytes) {
  test::FakeArtifact artifact;
  artifact.estimate = {{}, bytes, digest};
  artifact.footprint.private_bytes = bytes;
  return artifact;
}

template <class Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 6'000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

}  // namespace

TEST_CASE("what was written is read by the next process; the folder is made, alone and readable", "[learned]") {
  const Folder above;
  const auto folder = above.path / ".mme";
  CHECK(LearnedFile(folder).write(table_of(7)));
  const LearnedFile again(folder / "");
  CHECK(again.on());
  CHECK(bytes_in(again.read()) == 7);
  CHECK(again.write(table_of(8)));
  CHECK(bytes_in(LearnedFile(folder).read()) == 8);
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);  // nothing is left beside
  struct stat facts {};
  REQUIRE(stat((folder / "learned").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0644);
}

TEST_CASE("off, nothing is read and written", "[learned]") {
  const LearnedFile file(std::nullopt);
  CHECK_FALSE(file.on());
  CHECK(file.read().artifacts.empty());
  CHECK_FALSE(file.write(table_of(7)));
}

TEST_CASE("where no file can be made it is off; where there is no folder yet it waits for one", "[learned]") {
  const Folder above;
  std::ofstream(above.path / "file") << "x";
  fs::create_directory_symlink("/proc/sys", above.path / "link");  // nobody may make files there
  for (const char* name : {"file", "link"}) {
    const LearnedFile file(above.path / name);
    CHECK_FALSE(file.on());
    CHECK(file.read().artifacts.empty());
    CHECK_FALSE(file.write(table_of(7)));
  }
  const LearnedFile later(above.path / "models" / ".mme");
  CHECK(later.on());
  CHECK_FALSE(later.write(table_of(7)));
  CHECK_FALSE(fs::exists(above.path / "models"));
  fs::create_directory(above.path / "models");
  CHECK(later.write(table_of(7)));
  CHECK(bytes_in(later.read()) == 7);
}

TEST_CASE("whatever else lies in its place is as nothing, and is written over", "[learned]") {
  set_log_level(LogLevel::error);  // a line for each
  const Folder folder;
  const LearnedFile file(folder.path);
  const std::string whole = cache::to_text(table_of(7));
  for (const std::string& text : {std::string(), std::string("garbage"), whole + "x", "x" + whole,
                                  std::string("mme learned 2\n"), std::string(1 << 20, '\0')}) {
    folder.put(text);
    CHECK(file.read().artifacts.empty());
  }
  for (std::size_t length = 0; length < whole.size(); ++length) {
    folder.put(whole.substr(0, length));
    CHECK(file.read().artifacts.empty());
  }
  folder.put("");
  fs::resize_file(folder.path / "learned", std::uintmax_t{1} << 40);  // a terabyte of nothing
  CHECK(file.read().artifacts.empty());
  CHECK(file.write(table_of(7)));
  CHECK(folder.content() == whole);
  fs::remove(folder.path / "learned");
  REQUIRE(mkfifo((folder.path / "learned").c_str(), 0600) == 0);  // nobody writes to it: opening must not wait
  CHECK(file.read().artifacts.empty());
  CHECK(file.write(table_of(7)));
  CHECK(bytes_in(file.read()) == 7);
  fs::remove(folder.path / "learned");
  fs::create_directory(folder.path / "learned");
  CHECK(file.read().artifacts.empty());
  CHECK_FALSE(file.write(table_of(7)));
  CHECK(folder.files() == 1);
  set_log_level(LogLevel::access);
}

TEST_CASE("what a killed process left beside is removed once it is old", "[learned]") {
  const Folder folder;
  for (const char* name : {"learned.tmp.aaaaaa", "learned.tmp.bbbbbb", "other"}) std::ofstream(folder.path / name) << 1;
  for (const char* name : {"learned.tmp.aaaaaa", "other"}) {
    fs::last_write_time(folder.path / name, fs::file_time_type::clock::now() - 1h);
  }
  const LearnedFile file(folder.path);
  CHECK_FALSE(fs::exists(folder.path / "learned.tmp.aaaaaa"));
  CHECK(fs::exists(folder.path / "learned.tmp.bbbbbb"));
  CHECK(fs::exists(folder.path / "other"));
}

TEST_CASE("several processes that write one file leave a whole one of one of them", "[learned]") {
  const Folder folder;
  std::vector<std::thread> writers;
  std::atomic<int> unread{0};
  for (std::size_t writer = 1; writer <= 4; ++writer) {
    writers.emplace_back([&, writer] {
      const LearnedFile file(folder.path);
      for (int i = 0; i < 50; ++i) {
        if (!file.write(table_of(writer))) ++unread;
        if (bytes_in(file.read()) == 0) ++unread;
      }
    });
  }
  for (auto& writer : writers) writer.join();
  CHECK(unread == 0);
  CHECK(folder.files() == 1);
}

TEST_CASE("news is written at once, more of it after a pause, none never, and the rest at the end", "[learned]") {
  const Folder folder;
  const LearnedFile file(folder.path);
  test::Bench bench(test::small(100));
  LearnedKeeper keeper(bench.cache(), file);
  const auto names = [&] { return file.read().names.size(); };
  loader::TimePoint now{1h};
  keeper.step(now);
  bench.loader.put("a", artifact_with(std::string(32, 'a'), 10));
  bench.loader.put("b", artifact_with(std::string(32, 'b'), 10));
  bench.call("a");
  keeper.step(now);
  REQUIRE(soon([&] { return names() == 1; }));
  bench.call("a");
  keeper.step(now += 1h);  // a hit is no news
  bench.call("b");
  keeper.step(now);
  REQUIRE(soon([&] { return names() == 2; }));
  bench.loader.put("c", artifact_with(std::string(32, 'c'), 10));
  bench.call("c");
  keeper.step(now + LearnedKeeper::kPause - 1ms);
  std::this_thread::sleep_for(50ms);
  CHECK(names() == 2);  // too soon
  CHECK(keeper.finish(60s));
  CHECK(names() == 3);
}
