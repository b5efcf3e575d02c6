// From names to artifacts: every layout, every conflict, and the list.
#include "loader/repository/catalog.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "loader/repository/layout.hpp"
#include "tests/loader/repository/temp_repository.hpp"
#include "tests/support/catch.hpp"

using namespace mme::loader;
using mme::test::TempRepository;
namespace fs = std::filesystem;

namespace {

const std::optional<std::string> kNoVersion;

/// "team/bert.pt", "team/bert.pt@3" or the error's code.
std::string found(const TempRepository& repository, const Result<ModelSpec>& spec) {
  if (!spec) return std::string(reason(spec.error().code));
  const fs::path relative = fs::path(spec->artifact.path).lexically_relative(fs::canonical(repository.root()));
  return relative.string() + (spec->version ? "@" + *spec->version : "");
}

std::string resolved(const TempRepository& repository, const std::string& name,
                     const std::optional<std::string>& version = std::nullopt) {
  return found(repository, Catalog(repository.root()).resolve(name, version));
}

std::string message(const TempRepository& repository, const std::string& name) {
  const auto spec = Catalog(repository.root()).resolve(name, kNoVersion);
  REQUIRE(spec.has_error());
  return spec.error().message;
}

/// "name", "name@version", with "!reason" behind those that cannot be served.
std::vector<std::string> listed(const TempRepository& repository) {
  std::vector<std::string> lines;
  for (const auto& model : Catalog(repository.root()).list()) {
    std::string line = model.name;
    if (model.version) line += "@" + *model.version;
    if (model.error) line += "!" + std::string(reason(model.error->code));
    lines.push_back(line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a file NAME.pt is the model NAME", "[catalog]") {
  TempRepository repository;
  repository.put("bert.pt");
  repository.put("team/nlp/bert.pt");
  repository.put("model.pt");
  CHECK(resolved(repository, "bert") == "bert.pt");
  CHECK(resolved(repository, "team/nlp/bert") == "team/nlp/bert.pt");
  CHECK(resolved(repository, "model") == "model.pt");
  CHECK(resolved(repository, "Bert") == "model_unknown");
  CHECK(resolved(repository, "bert", "1") == "model_unknown");
}

TEST_CASE("a spec holds the identity of the file", "[catalog]") {
  TempRepository repository;
  repository.put("bert.pt", "12345");
  const auto spec = Catalog(repository.root()).resolve("bert", kNoVersion);
  REQUIRE(spec.has_value());
  CHECK(spec->name == "bert");
  CHECK_FALSE(spec->version);
  CHECK(spec->artifact.path == fs::canonical(repository.root() / "bert.pt"));
  CHECK(spec->artifact.size == 5 + 22);
  struct stat status {};
  REQUIRE(::stat(spec->artifact.path.c_str(), &status) == 0);
  CHECK(spec->artifact.device == status.st_dev);
  CHECK(spec->artifact.inode == status.st_ino);
  CHECK(spec->artifact.mtime_ns == status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
  CHECK(spec->artifact.ctime_ns == status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec);
}

TEST_CASE("the url of a spec is its path in the repository and nothing of the machine", "[catalog]") {
  TempRepository repository;
  repository.put("team/bert/3/model.pt");
  const Catalog catalog(repository.root());
  auto spec = catalog.resolve("team/bert", kNoVersion);
  REQUIRE(spec.has_value());
  CHECK(catalog.url_of(*spec) == "team/bert/3/model.pt");
  spec->artifact.path = "/somewhere/else/secret.pt";
  CHECK(catalog.url_of(*spec) == "secret.pt");
}

TEST_CASE("a folder is a model by its model.pt or by its only artifact", "[catalog]") {
  TempRepository repository;
  repository.put("plain/model.pt");
  repository.write("plain/notes.txt", "x");
  repository.put("lone/net.pth");
  repository.put("team/deep/model.pt");
  CHECK(resolved(repository, "plain") == "plain/model.pt");
  CHECK(resolved(repository, "lone") == "lone/net.pth");
  CHECK(resolved(repository, "team/deep") == "team/deep/model.pt");
  CHECK(resolved(repository, "team") == "model_unknown");
}

TEST_CASE("model.pt wins over other files of its folder, which keep their own names", "[catalog]") {
  TempRepository repository;
  repository.put("bert/model.pt");
  repository.put("bert/other.pt");
  CHECK(resolved(repository, "bert") == "bert/model.pt");
  CHECK(resolved(repository, "bert/other") == "bert/other.pt");
  CHECK(resolved(repository, "bert/model") == "model_unknown");
  CHECK(listed(repository) == Lines{"bert", "bert/other"});
}

TEST_CASE("a name does not depend on the files beside it", "[catalog]") {
  TempRepository repository;
  repository.put("team/a.pt");
  CHECK(resolved(repository, "team/a") == "team/a.pt");
  CHECK(resolved(repository, "team") == "team/a.pt");
  CHECK(listed(repository) == Lines{"team"});
  repository.put("team/b.pt");
  CHECK(resolved(repository, "team/a") == "team/a.pt");
  CHECK(resolved(repository, "team") == "model_unknown");
  CHECK(message(repository, "team") ==
        "no model 'team' in the repository: its folder holds several artifacts and no model.pt");
  CHECK(listed(repository) == Lines{"team/a", "team/b"});
}

TEST_CASE("the highest version by number answers when none is asked for", "[catalog]") {
  TempRepository repository;
  repository.put("bert/9/model.pt");
  repository.put("bert/10/model.pt");
  repository.put("bert/002/weights.pt");
  fs::create_directories(repository.root() / "bert/11");  // an upload that has just begun
  CHECK(resolved(repository, "bert") == "bert/10/model.pt@10");
  CHECK(resolved(repository, "bert", "9") == "bert/9/model.pt@9");
  CHECK(resolved(repository, "bert", "2") == "bert/002/weights.pt@002");
  CHECK(resolved(repository, "bert", "11") == "model_unknown");
  CHECK(Catalog(repository.root()).versions("bert") == Lines{"002", "9", "10"});
  CHECK(listed(repository) == Lines{"bert@002", "bert@9", "bert@10"});
}

TEST_CASE("18 digits are a version, 19 are part of a name", "[catalog]") {
  TempRepository repository;
  repository.put("m/999999999999999999/model.pt");
  repository.put("m/1234567890123456789/x/model.pt");
  CHECK(resolved(repository, "m") == "m/999999999999999999/model.pt@999999999999999999");
  CHECK(resolved(repository, "m/1234567890123456789/x") == "m/1234567890123456789/x/model.pt");
  CHECK(listed(repository) == Lines{"m@999999999999999999", "m/1234567890123456789/x"});
}

TEST_CASE("two artifacts for one name are a conflict that names both", "[catalog]") {
  TempRepository repository;
  repository.put("a.pt");
  repository.put("a/model.pt");
  CHECK(message(repository, "a") == "model 'a' has two artifacts: a.pt and a/model.pt");
  repository.put("b.pt");
  repository.put("b/3/model.pt");
  CHECK(message(repository, "b") == "model 'b' has two artifacts: b.pt and b/3/model.pt");
  CHECK(resolved(repository, "b", "3") == "conflict");
  repository.put("c/net.pt");
  repository.put("c/1/model.pt");
  CHECK(message(repository, "c") == "model 'c' has two artifacts: c/net.pt and c/1/model.pt");
  CHECK(listed(repository) == Lines{"a!conflict", "b!conflict", "c!conflict"});
}

TEST_CASE("a version that is there twice is a conflict, the others are served", "[catalog]") {
  TempRepository repository;
  repository.put("m/7/model.pt");
  repository.put("m/007/model.pt");
  repository.put("m/8/model.pt");
  repository.put("m/9/a.pt");
  repository.put("m/9/b.pt");
  CHECK(resolved(repository, "m", "7") == "conflict");
  CHECK(resolved(repository, "m", "8") == "m/8/model.pt@8");
  CHECK(message(repository, "m") == "model 'm' has two artifacts: m/9/a.pt and m/9/b.pt");
  CHECK(listed(repository) == Lines{"m@007!conflict", "m@7!conflict", "m@8", "m@9!conflict"});
}

TEST_CASE("hidden and odd files and folders are passed over", "[catalog]") {
  TempRepository repository;
  for (const char* path : {".hidden.pt", ".mme/staging/model.pt", "a/.git/model.pt", "with space.pt", "x\ny.pt", "7.pt",
                           "42/model.pt", "notes.txt", "archive.pth", ".pt"}) {
    repository.put(path);
  }
  fs::create_directories(repository.root() / "folder.pt");
  CHECK(listed(repository).empty());
  CHECK(resolved(repository, "folder") == "model_unknown");
  CHECK(resolved(repository, ".hidden") == "invalid_request");
  CHECK(resolved(repository, "7") == "invalid_request");
  CHECK(resolved(repository, "a", "x") == "invalid_request");
  CHECK(resolved(repository, "../models/a") == "invalid_request");
}

TEST_CASE("something that is no regular file is no artifact", "[catalog]") {
  TempRepository repository;
  fs::create_directories(repository.root() / "a");
  REQUIRE(::mkfifo((repository.root() / "a/model.pt").c_str(), 0600) == 0);
  CHECK(resolved(repository, "a") == "model_unknown");
}

TEST_CASE("symlinks are followed inside the repository and refused beyond", "[catalog]") {
  TempRepository repository;
  repository.put("real/model.pt");
  repository.put("../secret.pt");
  repository.put("../elsewhere/model.pt");
  fs::create_symlink("real/model.pt", repository.root() / "link.pt");
  fs::create_directory_symlink(repository.root() / "real", repository.root() / "folder-link");
  fs::create_symlink(repository.outside() / "secret.pt", repository.root() / "out.pt");
  fs::create_directory_symlink(repository.outside() / "elsewhere", repository.root() / "out-folder");
  fs::create_symlink("nowhere", repository.root() / "dangling.pt");
  CHECK(resolved(repository, "link") == "real/model.pt");
  CHECK(resolved(repository, "folder-link") == "real/model.pt");
  CHECK(message(repository, "out") == "the artifact of model 'out' lies outside the repository");
  CHECK(resolved(repository, "out") == "invalid_request");
  CHECK(resolved(repository, "out-folder") == "invalid_request");
  CHECK(resolved(repository, "dangling") == "model_unknown");
  CHECK(listed(repository) ==
        Lines{"folder-link", "link", "out!invalid_request", "out-folder!invalid_request", "real"});
}

TEST_CASE("a name below a symlink out of the repository is refused too", "[catalog]") {
  TempRepository repository;
  repository.put("../elsewhere/a.pt");
  repository.put("../elsewhere/b/model.pt");
  fs::create_directory_symlink(repository.outside() / "elsewhere", repository.root() / "out");
  CHECK(resolved(repository, "out/a") == "invalid_request");
  CHECK(resolved(repository, "out/b") == "invalid_request");
}

TEST_CASE("a folder outside the repository is not even read", "[catalog]") {
  TempRepository repository;
  repository.put("../elsewhere/model.pt");
  repository.put("../elsewhere/1/model.pt");
  repository.put("../lone/net.pt");
  repository.put("versions/1/model.pt");
  fs::create_directory_symlink(repository.outside() / "elsewhere", repository.root() / "out");
  fs::create_directory_symlink(repository.outside() / "lone", repository.root() / "versions/2");
  const Layout out = survey(fs::canonical(repository.root()), "out");
  CHECK(out.outside);
  CHECK(out.empty());
  CHECK(survey(fs::canonical(repository.root()), "versions").versions.size() == 1);
}

TEST_CASE("a loop of symlinks ends", "[catalog]") {
  TempRepository repository;
  repository.put("a/model.pt");
  fs::create_directory_symlink("..", repository.root() / "a/up");
  fs::create_symlink("self.pt", repository.root() / "self.pt");
  CHECK(listed(repository) == Lines{"a"});
  CHECK(resolved(repository, "self") == "model_unknown");
}

TEST_CASE("a repository that is itself a symlink may be switched", "[catalog]") {
  TempRepository repository;
  repository.put("one/a.pt");
  repository.put("two/b.pt");
  const fs::path root = repository.outside() / "current";
  fs::create_directory_symlink(repository.root() / "one", root);
  const Catalog catalog(root);
  CHECK(catalog.resolve("a", kNoVersion).has_value());
  fs::remove(root);
  fs::create_directory_symlink(repository.root() / "two", root);
  CHECK(catalog.resolve("a", kNoVersion).has_error());
  CHECK(catalog.resolve("b", kNoVersion).has_value());
}

TEST_CASE("a repository that does not exist is empty", "[catalog]") {
  TempRepository repository;
  const Catalog catalog(repository.root() / "missing");
  CHECK(catalog.list().empty());
  CHECK(catalog.resolve("a", kNoVersion).error().code == ErrorCode::model_unknown);
}

TEST_CASE("a thousand models are listed exactly once each, sorted", "[catalog]") {
  TempRepository repository;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "m" + std::to_string(i);
    const std::string path = i % 3 == 0 ? name + ".pt" : name + (i % 3 == 1 ? "/model.pt" : "/1/model.pt");
    repository.put(path);
  }
  const auto all = Catalog(repository.root()).list();
  CHECK(all.size() == 1000);
  CHECK(std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
  CHECK(std::adjacent_find(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name == b.name; }) ==
        all.end());
  CHECK(std::all_of(all.begin(), all.end(), [](const auto& m) { return !m.error && m.bytes == 7 + 22; }));
  const auto m1 = std::find_if(all.begin(), all.end(), [](const auto& m) { return m.name == "m1"; });
  CHECK(m1->url == "m1/model.pt");
}
