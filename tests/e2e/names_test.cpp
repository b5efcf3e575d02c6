// What a name, a path or a url may do on the real server, and what it never may.
#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <string>

#include "tests/e2e/oip.hpp"
#include "tests/e2e/scenario.hpp"
#include "tests/support/catch.hpp"

using namespace mme::test;

namespace {

namespace fs = std::filesystem;

/// Counts what is opened in a folder while it lives, without a look at who opens it.
class OpenWatch {
 public:
  explicit OpenWatch(const fs::path& folder) : fd_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    REQUIRE(inotify_add_watch(fd_, folder.c_str(), IN_OPEN) >= 0);
  }
  ~OpenWatch() { close(fd_); }
  OpenWatch(const OpenWatch&) = delete;
  OpenWatch& operator=(const OpenWatch&) = delete;

  /// Names of files opened since the last look; "." for the folder itself.
  std::vector<std::string> opened() const {
    std::vector<std::string> names;
    alignas(inotify_event) std::array<char, 4096> events;
    for (ssize_t got = 0; (got = read(fd_, events.data(), events.size())) > 0;) {
      for (const char* at = events.data(); at < events.data() + got;) {
        const auto* event = reinterpret_cast<const inotify_event*>(at);
        names.emplace_back(event->len > 0 ? event->name : ".");
        at += sizeof(inotify_event) + event->len;
      }
    }
    return names;
  }

 private:
  int fd_;
};

/// A repository with a model, and beside it, where no name may lead, another one.
struct Beside {
  Beside() {
    install(root, {{"inside", "echo"}});
    install(outside, {{"secret", "ver1"}, {"m/model", "ver1"}});
    fs::create_symlink(outside / "secret.pt", root / "link.pt");
    fs::create_directory_symlink(outside / "m", root / "folder");
    fs::create_symlink("../outside/secret.pt", root / "relative.pt");
    server.emplace(root);
  }
  TempDir parent;
  fs::path root = parent.path() / "root";
  fs::path outside = parent.path() / "outside";
  std::optional<ServerProcess> server;
};

std::string encoded(const std::string& text) {
  std::string out;
  char code[4];
  for (const char c : text) {
    std::snprintf(code, sizeof code, "%%%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    out += code;
  }
  return out;
}

}  // namespace

TEST_CASE("D5: no spelling of a name or url leads out of the repository, for any call", "[names]") {
  Beside it;
  auto client = it.server->client();
  REQUIRE(infer(client, "inside").status == 200);
  OpenWatch watch(it.outside);
  std::ifstream(it.outside / "secret.pt").get();
  REQUIRE(watch.opened() == std::vector<std::string>{"secret.pt"});  // it sees what it is there for

  const std::vector<std::string> names{"..",
                                       "../x",
                                       "../outside/secret",
                                       "%2e%2e%2fx",
                                       "..%5cx",
                                       "..\\x",
                                       "%252e%252e%252f",
                                       "inside/../../outside/secret",
                                       "/etc/passwd",
                                       "./inside",
                                       "inside/.",
                                       "inside/..",
                                       ".mme/state",
                                       "inside//x",
                                       "/inside",
                                       "..%c0%afx",
                                       "\xc0\xae\xc0\xae/x",
                                       "x/..%00"};
  for (const auto& name : names) {
    INFO(name);
    // As a name: in a body, and encoded in a path, where it is one segment whatever it holds.
    if (name[0] != '\xc0') CHECK(client.post("/models", {{"model_name", name}}).status == 400);
    for (const auto& once : {encoded(name), encoded(encoded(name))}) {
      CHECK(infer(client, once).status == 400);
      CHECK(invoke(client, once).status == 400);
      CHECK(client.get("/models/" + once).status == 400);
      CHECK(client.get("/v2/models/" + once + "/ready").status == 400);
      CHECK(client.send("DELETE", "/models/" + once).status == 400);
      CHECK(client.send("POST", "/v2/repository/models/" + once + "/load").status == 400);
      CHECK(client.send("POST", "/v2/repository/models/" + once + "/unload").status == 400);
    }
  }
  // As they stand in a path they make other paths, which are nobody's.
  for (const char* path : {"..", "../x", "../outside/secret", "%2e%2e%2fx", "..%5cx", "%252e%252e%252f", "inside/..",
                           "./inside", "inside/../../outside/secret", "%2e%2e/outside/secret"}) {
    INFO(path);
    for (const auto& reply : {infer(client, path), client.send("DELETE", std::string("/models/") + path)}) {
      CHECK((reply.status == 400 || reply.status == 404 || reply.status == 405));
    }
  }
  const std::string outside = it.outside.string();
  for (const std::string& url :
       {outside + "/secret.pt", outside, std::string("../outside/secret.pt"), std::string("/etc/passwd"),
        it.root.string() + "/../outside/secret.pt", it.root.string() + "-x/secret.pt",
        "file://" + outside + "/secret.pt", std::string("..\\outside\\secret.pt"),
        std::string("inside/../../outside/secret.pt"), std::string("/proc/self/mem"), std::string("/dev/zero"),
        std::string("s3://bucket/secret.pt"), std::string("link.pt"), std::string("folder"), std::string("relative.pt"),
        it.root.string() + "/link.pt"}) {
    INFO(url);
    CHECK(client.post("/models", {{"model_name", "taken"}, {"url", url}}).status == 400);
  }
  for (const char* link : {"link", "folder", "relative"}) {
    INFO(link);
    CHECK(infer(client, link).status == 400);
    CHECK(client.post("/models", {{"model_name", link}}).status == 400);
    const auto deleted = client.send("DELETE", std::string("/models/") + link);
    CHECK((deleted.status == 400 || deleted.status == 404));
  }
  CHECK(client.get("/models/taken").status == 404);
  const auto opened = watch.opened();
  for (const auto& name : opened) UNSCOPED_INFO(name << " was opened");
  CHECK(opened.empty());
  CHECK(fs::exists(it.outside / "secret.pt"));
  CHECK(fs::exists(it.outside / "m/model.pt"));
  CHECK(infer(client, "inside").status == 200);
}

TEST_CASE("D6: long and many names are listed over pages, each exactly once", "[names]") {
  TempDir repository;
  const std::string hash(64, 'f');
  install(repository.path(), {{hash, "echo"}});
  // Links to one file under other names are artifacts of their own in the list, and cost no disk.
  const int count = rounds(300, 5000);
  for (int i = 0; i < count; ++i) {
    fs::copy_file(repository.path() / (hash + ".pt"), repository.path() / ("m" + std::to_string(i) + ".pt"));
  }
  ServerProcess server(repository.path());
  auto client = server.client();
  for (int i = 0; i < count; ++i) CHECK(load(client, "m" + std::to_string(i)).status == 200);
  CHECK(load(client, hash).status == 200);
  CHECK(invoke(client, hash).status == 200);
  std::multiset<std::string> seen;
  std::string target = "/models";
  for (int pages = 0; !target.empty() && pages <= count; ++pages) {
    const auto page = client.get(target).json();
    for (const auto& model : page["models"]) seen.insert(model["modelName"]);
    const auto token = page.value("nextPageToken", "");
    target = token.empty() ? "" : "/models?next_page_token=" + token;
  }
  CHECK(seen.size() == static_cast<std::size_t>(count) + 1);
  CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == seen.size());
  CHECK(seen.count(hash) == 1);
  const std::string long_name(2048, 'a');
  CHECK(infer(client, long_name).status == 400);
  CHECK(invoke(client, encoded(long_name)).status == 414);
  CHECK(client.post("/models", {{"model_name", long_name}}).status == 400);
  CHECK(client.get("/models/" + long_name).status == 400);
}

TEST_CASE("D7: a name has one spelling, and one file is not loaded twice", "[names]") {
  TempDir repository;
  install(repository.path(), {{"echo", "echo"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(invoke(client, "echo").status == 200);
  CHECK(client.get("/models/echo?x=1").status == 200);
  CHECK(client.send("POST", "/models/echo/invoke?x=1", "[1]").status == 200);
  CHECK(invoke(client, "%65cho").status == 200);  // an escaped letter is that letter
  for (const char* target :
       {"/models/Echo", "/models/echo/", "//models/echo", "/models//echo", "/Models/echo", "/models/echo%20",
        "/models/echo.pt", "/models/echo%2f", "/models/echo;x=1", "/models/echo.", "/v2/models/Echo",
        "/v2/models/echo/", "/v2//models/echo", "/v2/models/echo.pt"}) {
    INFO(target);
    const auto reply = client.get(target);
    CHECK((reply.status == 404 || reply.status == 400));
  }
  for (const char* name : {"Echo", "ECHO", "echo.pt", "echo/", "/echo", "echo."}) {
    INFO(name);
    const auto reply = infer(client, name);
    CHECK((reply.status == 404 || reply.status == 400));
  }
  CHECK(server.metric_sum("mme_model_loads_total") == 1);
}

TEST_CASE("D8: models may be called like parts of a path and shadow none", "[names]") {
  const std::vector<std::string> words{"infer", "ready",  "versions", "invoke", "CON",    "-",    "models",
                                       "load",  "unload", "index",    "stats",  "health", "live", "repository"};
  TempDir repository;
  std::map<std::string, std::string> models;
  for (const auto& word : words) models[word] = "echo";
  install(repository.path(), models);
  ServerProcess server(repository.path());
  auto client = server.client();
  for (const auto& word : words) {
    INFO(word);
    CHECK(client.get("/models/" + word).status == 404);  // not in memory yet
    CHECK(infer(client, word).json().value("model_name", "") == word);
    CHECK(invoke(client, word).body == "[1.0, 2.0]");
    CHECK(client.get("/v2/models/" + word).json().value("name", "") == word);
    CHECK(client.get("/v2/models/" + word + "/ready").status == 200);
    CHECK(client.get("/models/" + word).json().value("modelName", "") == word);
    CHECK(client.send("DELETE", "/models/" + word).status == 200);
    CHECK(client.send("POST", "/v2/repository/models/" + word + "/load").status == 200);
    CHECK(client.send("POST", "/v2/repository/models/" + word + "/unload").status == 200);
  }
  for (const std::string& none : {std::string("%2e"), std::string(255, 'a'), std::string("%20"), std::string("7")}) {
    INFO(none);
    CHECK(infer(client, none).status == 400);
    CHECK(invoke(client, none).status == 400);
    CHECK(client.send("DELETE", "/models/" + none).status == 400);
  }
  for (const char* target : {"/v2/models//infer", "/v2/models/./infer", "/models//invoke", "/models/./invoke"}) {
    INFO(target);
    CHECK(client.send("POST", target, "[1]").status == 404);
  }
  CHECK(client.post("/models", {{"model_name", ""}}).status == 400);
  CHECK(client.post("/models", {{"model_name", "."}}).status == 400);
  // The routes are what they were.
  CHECK(client.get("/v2/health/ready").status == 200);
  CHECK(client.get("/v2/health/live").json() == Json({{"live", true}}));
  CHECK(client.send("POST", "/v2/repository/index", "").json().size() == words.size());
}
