// The url of a load request, and names given to artifacts by one.
#include "loader/repository/catalog.hpp"
#include "tests/loader/repository/temp_repository.hpp"
#include "tests/support/catch.hpp"

using namespace mme::loader;
using mme::test::TempRepository;
namespace fs = std::filesystem;

namespace {

std::string by_url(const TempRepository& repository, const std::string& url) {
  const auto spec = Catalog(repository.root()).resolve_url("any", url);
  if (!spec) return std::string(reason(spec.error().code));
  CHECK(spec->name == "any");
  const fs::path relative = fs::path(spec->artifact.path).lexically_relative(fs::canonical(repository.root()));
  return relative.string() + (spec->version ? "@" + *spec->version : "");
}

}  // namespace

TEST_CASE("a url may be a file, a folder or a stem", "[catalog][url]") {
  TempRepository repository;
  repository.put("bert.pt");
  repository.put("0123456789abcdef/model/model.pt");
  repository.put("versioned/2/model.pt");
  repository.put("versioned/10/model.pt");
  repository.put("odd name (1)/net.pth");
  const std::string root = repository.root().string();
  CHECK(by_url(repository, "bert.pt") == "bert.pt");
  CHECK(by_url(repository, "bert") == "bert.pt");
  CHECK(by_url(repository, "./bert.pt") == "bert.pt");
  CHECK(by_url(repository, root + "/bert.pt") == "bert.pt");
  CHECK(by_url(repository, root + "/0123456789abcdef/model") == "0123456789abcdef/model/model.pt");
  CHECK(by_url(repository, "0123456789abcdef//model/") == "0123456789abcdef/model/model.pt");
  CHECK(by_url(repository, "0123456789abcdef/model/model.pt") == "0123456789abcdef/model/model.pt");
  CHECK(by_url(repository, "versioned") == "versioned/10/model.pt@10");
  CHECK(by_url(repository, "versioned/2") == "versioned/2/model.pt");
  CHECK(by_url(repository, "odd name (1)") == "odd name (1)/net.pth");
  CHECK(by_url(repository, "missing") == "model_unknown");
}

TEST_CASE("a url that leads outside or looks like no path is refused", "[catalog][url]") {
  TempRepository repository;
  repository.put("bert.pt");
  repository.put(".mme/state/model.pt");
  repository.put("../secret.pt");
  repository.put("../models-other/x.pt");
  const std::string root = repository.root().string();
  for (const std::string& url : {std::string(),
                                 std::string("/"),
                                 root,
                                 root + "/",
                                 std::string("."),
                                 std::string("../secret.pt"),
                                 std::string("x/../../secret.pt"),
                                 root + "/../secret.pt",
                                 root + "-other/x.pt",
                                 std::string("/etc/passwd"),
                                 std::string("/dev/zero"),
                                 std::string("/proc/self/mem"),
                                 std::string("/sys/kernel"),
                                 std::string("file:///etc/passwd"),
                                 std::string("s3://bucket/model.tar.gz"),
                                 std::string("http://host/m.pt"),
                                 std::string(".mme/state"),
                                 std::string("..\\secret.pt"),
                                 std::string("a\nb"),
                                 std::string("a\0b", 3),
                                 std::string("caf\xc3\xa9"),
                                 std::string(1025, 'a')}) {
    INFO(url);
    CHECK(by_url(repository, url) == "invalid_request");
  }
}

TEST_CASE("errors about a url never repeat a path of the machine", "[catalog][url]") {
  TempRepository repository;
  fs::create_symlink("/etc/hostname", repository.root() / "x.pt");
  const Catalog catalog(repository.root());
  for (const char* url : {"/etc/passwd", "x.pt", "x", "nothing"}) {
    const auto spec = catalog.resolve_url("any", url);
    REQUIRE(spec.has_error());
    INFO(spec.error().message);
    CHECK(spec.error().message.find("/etc") == std::string::npos);
    CHECK(spec.error().message.find(repository.root().string()) == std::string::npos);
  }
}

TEST_CASE("an alias means its artifact until it is taken back", "[catalog][url]") {
  TempRepository repository;
  repository.put("shared/model.pt");
  repository.put("families/1/model.pt");
  repository.put("families/2/model.pt");
  Catalog catalog(repository.root());
  CHECK(catalog.resolve("tenant", std::nullopt).error().code == ErrorCode::model_unknown);
  catalog.register_alias("tenant", repository.root().string() + "/shared");
  const auto tenant = catalog.resolve("tenant", std::nullopt);
  REQUIRE(tenant.has_value());
  CHECK(tenant->name == "tenant");
  CHECK(tenant->artifact == catalog.resolve("shared", std::nullopt)->artifact);
  catalog.register_alias("tenant", "families");
  CHECK(catalog.resolve("tenant", std::nullopt)->version == "2");
  CHECK(catalog.resolve("tenant", std::string("1"))->version == "1");
  CHECK(catalog.versions("tenant") == std::vector<std::string>{"1", "2"});
  CHECK(catalog.list().size() == 3);
  catalog.unregister_alias("tenant");
  CHECK(catalog.resolve("tenant", std::nullopt).error().code == ErrorCode::model_unknown);
}
