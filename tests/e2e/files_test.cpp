// Model files that change while they are served: written slowly, touched, overwritten, cut, removed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/e2e/scenario.hpp"

using namespace mme::test;
namespace fs = std::filesystem;

namespace {

/// What a model that answers a constant says; nothing when it does not answer.
Json says(HttpClient& client, const std::string& model) {
  const auto response = infer(client, model);
  return response.status == 200 ? output(response, "OUTPUT__0")["data"][0] : Json();
}

std::string bytes_of(const std::string& stem) {
  std::ifstream file(test_models() / (stem + ".pt"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("C9: a file that is being copied is not there yet, and is not remembered as broken", "[files]") {
  TempDir repository;
  install(repository.path(), {{"echo", "echo"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  const std::string bytes = bytes_of("big32_0");
  std::thread writer([&] {  // 32 MiB in some two seconds, as dd does it
    std::ofstream file(repository.path() / "m.pt", std::ios::binary);
    for (std::size_t at = 0; at < bytes.size(); at += kMiB) {
      file.write(bytes.data() + at, static_cast<std::streamsize>(std::min(kMiB, bytes.size() - at))).flush();
      std::this_thread::sleep_for(60ms);
    }
  });
  std::map<unsigned, int> before;
  const auto until = Clock::now() + 60s;
  unsigned status = 0;
  while ((status = infer(client, "m").status) != 200 && Clock::now() < until) {
    ++before[status];
    std::this_thread::sleep_for(20ms);
  }
  writer.join();
  CHECK(status == 200);
  for (const auto& [code, count] : before) {
    INFO(code << " " << count << " times");
    CHECK((code == 404 || code == 503));
  }
  CHECK(before[503] > 0);
  CHECK(infer(client, "m").status == 200);
}

TEST_CASE("C13: a file is another when its bytes may be: replaced, or written to; a file that was only read is not",
          "[files]") {
  TempDir repository;
  install(repository.path(), {{"m", "ver1"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(says(client, "m") == Json(1.0));
  std::ifstream reader(repository.path() / "m.pt", std::ios::binary);
  CHECK(std::string{std::istreambuf_iterator<char>(reader), {}} == bytes_of("ver1"));
  CHECK(says(client, "m") == Json(1.0));
  CHECK(loads_of(server, "m") == 1);

  SECTION("touched: it may have been written to, so it is read again, once") {
    fs::last_write_time(repository.path() / "m.pt", fs::file_time_type::clock::now());
    CHECK(eventually([&] { return says(client, "m") == Json(1.0) && loads_of(server, "m") == 2; }));
    CHECK(says(client, "m") == Json(1.0));
    CHECK(loads_of(server, "m") == 2);
  }
  SECTION("another of the same size and time, put in its place by rename: the new one answers at once") {
    const auto stamp = fs::last_write_time(repository.path() / "m.pt");
    fs::copy_file(test_models() / "ver2.pt", repository.path() / "new");
    REQUIRE(fs::file_size(repository.path() / "new") == fs::file_size(repository.path() / "m.pt"));
    fs::last_write_time(repository.path() / "new", stamp);
    fs::rename(repository.path() / "new", repository.path() / "m.pt");
    CHECK(says(client, "m") == Json(2.0));
  }
}

TEST_CASE("C4: a model in memory answers while the file that should replace it is no model", "[files]") {
  TempDir repository;
  install(repository.path(), {{"m", "ver1"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(says(client, "m") == Json(1.0));
  upload(repository.path(), "m", "trunc");
  for (int i = 0; i < 20; ++i) CHECK(says(client, "m") == Json(1.0));
  CHECK(client.get("/models/m").status == 200);
  CHECK(eventually([&] { return client.post("/v2/repository/models/m/load", Json::object()).status == 422; }));
  CHECK(says(client, "m") == Json(1.0));
  CHECK(client.get("/models/m").status == 200);
  upload(repository.path(), "m", "ver2");
  CHECK(says(client, "m") == Json(2.0));
}

TEST_CASE("C14: a served file is cut, overwritten and removed: right answers or declared refusals, and no signal",
          "[files]") {
  TempDir repository;
  install(repository.path(), {{"m", "big32_0"}, {"other", "big32_1"}});
  ServerProcess server(repository.path());
  auto control = server.client();
  REQUIRE(infer(control, "m").status == 200);
  REQUIRE(infer(control, "other").status == 200);
  const Json status = control.get("/status").json();  // the case is about maps; where leases are refused, it is not
  for (const Json& entry : status["models"]) {
    if (entry["loaded"] != "mapped") WARN("not mapped: " << entry.dump());
  }
  const auto file = repository.path() / "m.pt";
  std::atomic<bool> going{true};
  std::atomic<int> right{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      auto client = server.client();
      while (going) {
        const auto response = infer(client, i == 0 ? "other" : "m");
        const bool declared_here =
            declared(response.status) || (i != 0 && (response.status == 422 || response.status == 404));
        if (response.status == 200 && output(response, "OUTPUT__0")["data"] == Json({2.0, 3.0})) {
          ++right;
        } else if (!declared_here || response.status == 200) {
          if (wrong++ < 5) std::fprintf(stderr, "%u %.200s\n", response.status, response.body.c_str());
        }
      }
    });
  }
  const auto pause = [] { std::this_thread::sleep_for(long_run() ? 1000ms : 250ms); };
  for (int round = 0; round < rounds(3, 20); ++round) {
    pause();
    REQUIRE(truncate(file.c_str(), 0) == 0);
    pause();
    {
      std::ofstream in_place(file, std::ios::binary);
      in_place << bytes_of("big32_0");
    }
    pause();
    REQUIRE(truncate(file.c_str(), 5'000'000) == 0);
    pause();
    fs::remove(file);
    pause();
    upload(repository.path(), "m", "big32_0");
  }
  CHECK(eventually([&] { return infer(control, "m").status == 200; }));
  going = false;
  for (auto& client : clients) client.join();
  CHECK(wrong == 0);
  CHECK(right > 20);
  CHECK(server.terminate() == 0);
}

TEST_CASE("a disk that cannot be read is no fault of the model: 500, and well again when the disk is", "[files]") {
  if (kSanitized) return;  // the sanitizer's library wants to be the first that is preloaded
  TempDir repository;
  install(repository.path(), {{"m", "big32_0"}, {"small", "echo"}, {"there", "echo"}});
  const auto mark = repository.path() / "broken";
  ServerProcess server(repository.path(), {}, {{"LD_PRELOAD", MME_DISK_SHIM}, {"MME_TEST_DISK_BROKEN", mark.string()}});
  auto client = server.client();
  REQUIRE(infer(client, "there").status == 200);
  std::ofstream(mark) << "";
  for (const char* model : {"m", "small"}) {
    const auto response = infer(client, model);
    INFO(model << " " << response.body);
    CHECK(response.status == 500);
    CHECK(response.header("X-MME-Reason") == "internal");
  }
  CHECK(infer(client, "there").status == 200);
  CHECK(server.metric("mme_memory_bytes{kind=\"loading\"}") == 0);
  fs::remove(mark);
  for (const char* model : {"m", "small"}) CHECK(infer(client, model).status == 200);
}
