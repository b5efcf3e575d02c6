// Model files that change while they are served, over a socket (C9, C13, C14).
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/e2e/scenario.hpp"

using namespace mme::test;
namespace fs = std::filesystem;

namespace {

const Json two_and_three = {2.0, 3.0};

/// 200 with the right answer, or one of these.
bool right_or(const Response& response, const std::set<unsigned>& refusals) {
  if (response.status == 200) return output(response, "OUTPUT__0")["data"] == two_and_three;
  return refusals.contains(response.status);
}

Json entry_of(HttpClient& client, const std::string& model) {
  const Json status = client.get("/status").json();
  for (const Json& entry : status["models"]) {
    if (entry["name"] == model) return entry;
  }
  return {};
}

}  // namespace

TEST_CASE("C14: the file of a served model is cut short, overwritten and deleted; answers stay right", "[files]") {
  TempDir repository;
  install(repository.path(), {{"m", "big32"}, {"other", "big32"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  for (const std::string model : {"m", "other"}) REQUIRE(right_or(infer(client, model), {}));
  const fs::path file = repository.path() / "m.pt";
  const bool mapped = entry_of(client, "m")["loaded"] == "mapped";
  if (!mapped) WARN("not mapped: " << entry_of(client, "m").dump());
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, calls{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&, i] {
      auto caller = server.client();
      while (!done) {
        // What is left of m is no model; until it is asked for anew, the old one answers.
        const Response response = infer(caller, i == 0 ? "m" : "other");
        wrong += right_or(response, i == 0 ? std::set<unsigned>{404, 422, 503} : std::set<unsigned>{}) ? 0 : 1;
        ++calls;
      }
    });
  }
  const auto some_calls = [&] {
    const int before = calls;
    CHECK(eventually([&] { return calls > before + 20; }));
  };
  some_calls();
  fs::resize_file(file, 0);
  some_calls();
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << std::string(kMiB, 'z');
  some_calls();
  fs::remove(file);
  some_calls();
  done = true;
  for (auto& caller : callers) caller.join();
  CHECK(wrong == 0);
  CHECK(load(client, "m").status >= 400);
  CHECK(right_or(infer(client, "other"), {}));
}

TEST_CASE("C13: a file replaced by another of the same size and time is a new model", "[files]") {
  TempDir repository;
  install(repository.path(), {{"m", "ver1"}, {"next", "ver2"}});
  const fs::path file = repository.path() / "m.pt", next = repository.path() / "next.pt";
  REQUIRE(fs::file_size(file) == fs::file_size(next));
  ServerProcess server(repository.path());
  auto client = server.client();
  CHECK(output(infer(client, "m"), "OUTPUT__0")["data"] == Json{1.0, 1.0});
  fs::last_write_time(next, fs::last_write_time(file));
  fs::rename(next, file);
  CHECK(eventually([&] {
    const Response response = infer(client, "m");
    return response.status == 200 && output(response, "OUTPUT__0")["data"] == Json{2.0, 2.0};
  }));
}

TEST_CASE("C9: a file that is still being copied is not served, and not remembered as broken", "[files]") {
  TempDir repository, elsewhere;
  install(elsewhere.path(), {{"m", "big32"}});
  ServerProcess server(repository.path());
  auto client = server.client();
  std::ifstream from(elsewhere.path() / "m.pt", std::ios::binary);
  std::ofstream to(repository.path() / "m.pt", std::ios::binary);
  std::vector<char> portion(4 * kMiB);
  while (from.read(portion.data(), static_cast<std::streamsize>(portion.size())), from.gcount() > 0) {
    const bool last = from.gcount() < static_cast<std::streamsize>(portion.size());
    if (last) CHECK(right_or(infer(client, "m"), {404, 503, 422}));
    to.write(portion.data(), from.gcount()).flush();
    if (!last) CHECK(infer(client, "m").status >= 400);
  }
  to.close();
  CHECK(eventually([&] { return infer(client, "m").status == 200; }, 30s));
  CHECK(right_or(infer(client, "m"), {}));
}
