// The server as a process among others: its children and sockets, its clock, its disk, and what models do to it.
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>

#include "tests/e2e/scenario.hpp"

using namespace mme::test;
namespace fs = std::filesystem;

namespace {

/// Inodes of the sockets that listen on this machine.
std::vector<std::string> listening_inodes() {
  std::vector<std::string> inodes;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::vector<std::string> all{std::istream_iterator<std::string>(fields), {}};
      if (all.size() > 9 && all[3] == "0A") inodes.push_back("socket:[" + all[9] + "]");
    }
  }
  return inodes;
}

std::size_t listening_sockets(pid_t pid) {
  const auto inodes = listening_inodes();
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    const auto target = fs::read_symlink(entry.path(), gone).string();
    if (std::ranges::find(inodes, target) != inodes.end()) ++count;
  }
  return count;
}

std::string children(pid_t pid) {
  std::string all;
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream file(task.path() / "children");
    all += std::string{std::istreambuf_iterator<char>(file), {}};
  }
  return all;
}

/// A file system of `size` in a folder, where this user may mount one.
class SmallDisk {
 public:
  SmallDisk(const fs::path& folder, const char* size) : folder_(folder) {
    fs::create_directories(folder);
    mounted_ = mount("none", folder.c_str(), "tmpfs", 0, (std::string("size=") + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  explicit operator bool() const { return mounted_; }

 private:
  fs::path folder_;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE("G5: one process and one listening socket, however many models are in memory", "[process]") {
  TempDir repository;
  std::map<std::string, std::string> models;
  for (int i = 0; i < 10; ++i) models["m" + std::to_string(i)] = "echo";
  install(repository.path(), models);
  ServerProcess server(repository.path());
  auto client = server.client();
  for (const auto& [name, stem] : models) CHECK(infer(client, name).status == 200);
  CHECK(children(server.pid()).empty());
  CHECK(listening_sockets(server.pid()) == 1);
}

#if defined(__x86_64__)
TEST_CASE("OpenBLAS takes kernels of this processor's time, unless the user names others", "[process]") {
  TempDir repository;
  const auto blas = [&](const std::map<std::string, std::string>& environment) {
    ServerProcess server(repository.path(), {}, environment);
    return events(server, "listening").at(0).value("blas", "");
  };
  const std::string found = blas({});
  if (found.find("OpenBLAS") == std::string::npos) return;
  const bool is_new = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (is_new) CHECK(found.find("Prescott") == std::string::npos);
  CHECK(blas({{"OPENBLAS_CORETYPE", "Nehalem"}}).find("Nehalem") != std::string::npos);
}
#endif

TEST_CASE("G24: gradients stay off in every call, whatever a model switches on", "[process]") {
  TempDir repository;
  install(repository.path(), {{"grads", "grads"}});
  ServerProcess server(repository.path(), set({"threads.compute=1"}));
  auto client = server.client();
  for (int i = 0; i < 5; ++i) {
    const auto response = infer(client, "grads");
    REQUIRE(response.status == 200);
    CHECK(output(response, "OUTPUT__0")["data"] == Json({false}));
  }
}

TEST_CASE("G24: a seed that a model sets is the process's, as the README of the loader says", "[process]") {
  TempDir repository;
  install(repository.path(), {{"seeds", "seeds"}, {"rands", "rands"}});
  ServerProcess server(repository.path(), set({"threads.compute=1"}));
  auto client = server.client();
  const auto numbers = [&](const char* model) { return output(infer(client, model), "OUTPUT__0")["data"]; };
  const Json first = numbers("seeds");
  const Json after_first = numbers("rands");
  CHECK(numbers("seeds") == first);
  CHECK(numbers("rands") == after_first);
  CHECK(numbers("rands") != after_first);
}

TEST_CASE("G30: a jump of the date changes neither order, nor idle time, nor deadlines", "[process]") {
  if (kSanitized) return;  // the sanitizer's library wants to be the first that is preloaded
  TempDir repository;
  install(repository.path(), {{"a", "big32_0"}, {"b", "big32_1"}, {"c", "big32_2"}});
  const auto offset = repository.path() / "offset";
  auto settings = room_for(2 * 34 * kMiB, {"cache.idle_unload=1h"});
  ServerProcess server(repository.path(), settings,
                       {{"LD_PRELOAD", MME_CLOCK_SHIM}, {"MME_TEST_CLOCK_OFFSET", offset.string()}});
  auto client = server.client();
  const auto date = [&] { return client.get("/ping").header("Date"); };
  CHECK(infer(client, "a").status == 200);
  const std::string today = date();
  const int days[] = {3, -3, 365};
  for (const int jump : days) {
    std::ofstream(offset) << jump * 86'400L;
    INFO("the date is off by " << jump << " days: " << date());
    CHECK(date() != today);  // or this would test nothing
    CHECK(infer(client, "b").status == 200);
    CHECK(infer(client, "a").status == 200);  // used last, so `b` is the one to go
    CHECK(infer(client, "c").status == 200);
    CHECK(client.get("/models/b").status == 404);
    CHECK(client.get("/models/a").status == 200);
    CHECK(infer(client, "a").status == 200);
  }
  CHECK(server.metric("mme_cache_evictions_total{reason=\"idle\"}") == 0);
}

TEST_CASE("G30: models are served from a disk that is full", "[process]") {
  TempDir folder;
  const SmallDisk disk(folder.path() / "models", "1m");
  if (!disk) {
    WARN("no file system can be mounted here: left out");
    return;
  }
  const auto repository = folder.path() / "models";
  install(repository, {{"m", "echo"}, {"n", "echo"}});
  std::ofstream filler(repository / "filler", std::ios::binary);
  while (filler.write(std::string(4096, 'x').data(), 4096).flush()) {
  }
  ServerProcess server(repository);
  auto client = server.client();
  CHECK(infer(client, "m").status == 200);
  CHECK(client.send("DELETE", "/models/m").status == 200);
  CHECK(infer(client, "n").status == 200);
  CHECK(infer(client, "m").status == 200);
}
