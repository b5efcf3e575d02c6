// The settings files beside models: found, read again when they change, and never more than their own model's trouble.
#include "server/inference/model_files.hpp"

#include "tests/loader/repository/temp_repository.hpp"
#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace mme::loader;
using mme::test::TempRepository;

namespace {

struct Bench {
  TempRepository repository;
  Catalog catalog{repository.root()};
  ModelFiles files{catalog};
};

}  // namespace

TEST_CASE("settings stand in NAME.yaml or NAME/model.yaml", "[model_files]") {
  Bench bench;
  bench.repository.write("a.yaml", "queue_size: 1");
  bench.repository.write("team/b/model.yaml", "queue_size: 2");
  CHECK(bench.files.options("a")->queue_size == 1U);
  CHECK(bench.files.options("team/b")->queue_size == 2U);
  CHECK_FALSE(bench.files.options("c")->queue_size);
}

TEST_CASE("a settings file that changes is read again, and one that goes counts no more", "[model_files]") {
  Bench bench;
  bench.repository.write("a.yaml", "queue_size: 1");
  CHECK(bench.files.options("a")->queue_size == 1U);
  bench.repository.write("a.yaml", "queue_size: 22");
  CHECK(bench.files.options("a")->queue_size == 22U);
  bench.repository.write("next", "queue_size: 33");
  std::filesystem::rename(bench.repository.root() / "next", bench.repository.root() / "a.yaml");
  CHECK(bench.files.options("a")->queue_size == 33U);
  std::filesystem::remove(bench.repository.root() / "a.yaml");
  CHECK_FALSE(bench.files.options("a")->queue_size);
}

TEST_CASE("a file that is no good is told with every problem, and is good again when it is mended", "[model_files]") {
  Bench bench;
  bench.repository.write("a.yaml", "pinned: 1\ncolour: red\n");
  bench.repository.write("b.yaml", "pinned: true\n");
  const auto bad = bench.files.options("a");
  REQUIRE(bad.has_error());
  CHECK(bad.error().code == ErrorCode::model_broken);
  CHECK(bad.error().message ==
        "the settings of the model are no good: a.yaml:1: pinned: must be true or false; a.yaml:2: colour: unknown "
        "setting of a model");
  CHECK(bench.files.options("b")->pinned == true);
  bench.repository.write("a.yaml", "pinned: true");
  CHECK(bench.files.options("a")->pinned == true);
  bench.repository.write("a.yaml", std::string(65 << 10, '#'));
  CHECK(bench.files.options("a").error().message == "a.yaml is larger than 64KiB");
}

TEST_CASE("two settings files for one model are a conflict", "[model_files]") {
  Bench bench;
  bench.repository.write("a.yaml", "");
  bench.repository.write("a/model.yaml", "");
  CHECK(bench.files.options("a").error().code == ErrorCode::conflict);
}

TEST_CASE("a settings file that leads out of the repository is not read", "[model_files]") {
  Bench bench;
  std::ofstream(bench.repository.outside() / "secret") << "pinned: true";
  std::filesystem::create_symlink(bench.repository.outside() / "secret", bench.repository.root() / "a.yaml");
  const auto refused = bench.files.options("a");
  REQUIRE(refused.has_error());
  CHECK(refused.error().code == ErrorCode::invalid_request);
  CHECK(refused.error().message.find("secret") == std::string::npos);
}

TEST_CASE("a model that is loaded by url brings the file beside its artifact", "[model_files]") {
  Bench bench;
  bench.repository.put("hash/model/net.pt");
  bench.repository.write("hash/model/model.yaml", "queue_size: 4");
  bench.repository.write("hash/model/net.yaml", "queue_size: 5");
  CHECK(bench.files.options("m", "hash/model")->queue_size == 4U);
  CHECK(bench.files.options("m", "hash/model/net.pt")->queue_size == 5U);
  CHECK_FALSE(bench.files.options("m")->queue_size);
  bench.catalog.register_alias("m", "hash/model");
  CHECK(bench.files.options("m")->queue_size == 4U);
}
