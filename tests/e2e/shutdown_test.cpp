// The end of the process: signals, and what was accepted before them.
#include <signal.h>
#include <sys/wait.h>

#include "tests/e2e/scenario.hpp"

using namespace mme::test;

namespace {

/// Waits for the end; the exit code, or minus the signal.
int exit_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("G13: SIGTERM and SIGINT end an idle server with 0", "[shutdown]") {
  for (const int signal : {SIGTERM, SIGINT}) {
    TempDir repository;
    install(repository.path(), {{"echo", "echo"}});
    ServerProcess server(repository.path());
    auto client = server.client();
    REQUIRE(infer(client, "echo").status == 200);
    kill(server.pid(), signal);
    CHECK(exit_of(server.pid()) == 0);
    REQUIRE(events(server, "stopped").size() == 1);
    CHECK(events(server, "stopped").front()["level"] == "info");
  }
}

TEST_CASE("G13: a second SIGTERM ends the process at once", "[shutdown]") {
  TempDir repository;
  install(repository.path(), {{"loop", "loop"}});
  ServerProcess server(repository.path(), set({"timeouts.drain=60s"}));
  std::thread caller([&] {
    auto client = server.client();
    try {
      (void)infer(client, "loop");
    } catch (const std::exception&) {  // cut off, as it must be
    }
  });
  REQUIRE(eventually([&] { return server.metric("mme_models{state=\"ready\"}") == 1; }));
  std::this_thread::sleep_for(200ms);
  const auto began = Clock::now();
  kill(server.pid(), SIGTERM);
  REQUIRE(eventually([&] { return events(server, "draining").size() == 1; }));
  std::this_thread::sleep_for(100ms);
  kill(server.pid(), SIGTERM);
  CHECK(exit_of(server.pid()) == 130);
  CHECK(Clock::now() - began < 30s);
  caller.join();
}

TEST_CASE("SIGTERM under 64 clients of a slow model: whoever was accepted is answered, and the exit is 0",
          "[shutdown]") {
  for (int round = 0; round < rounds(2, 20); ++round) {
    TempDir repository;
    install(repository.path(), {{"slow", "spin32"}});
    ServerProcess server(repository.path());
    auto control = server.client();
    REQUIRE(infer(control, "slow", spin(1)).status == 200);
    std::atomic<int> connected{0};
    std::atomic<int> answered{0};
    std::atomic<int> refused{0};
    std::atomic<int> lost{0};
    int code = -1;
    double seconds = 0;
    together(65, [&](int i) {
      if (i == 64) {
        while (connected < 64) std::this_thread::sleep_for(1ms);
        std::this_thread::sleep_for(std::chrono::milliseconds(50 + 20 * round));
        const auto began = Clock::now();
        code = server.terminate();
        seconds = std::chrono::duration<double>(Clock::now() - began).count();
        return;
      }
      auto client = server.client();
      client.get("/ping");  // accepted before the signal
      ++connected;
      while (connected < 64) std::this_thread::sleep_for(1ms);
      try {
        const auto status = infer(client, "slow", spin(20)).status;
        if (status == 200) ++answered;
        if (status == 503) ++refused;
      } catch (const std::exception&) {
        ++lost;
      }
    });
    INFO("round " << round << ": answered " << answered << ", refused " << refused << ", lost " << lost);
    CHECK(lost == 0);
    CHECK(answered + refused == 64);
    CHECK(code == 0);
    CHECK(seconds < 25);
  }
}
