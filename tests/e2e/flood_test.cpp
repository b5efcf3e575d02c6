// Many clients at once that take their time, or only their seat: what they cost, and that others do not notice.
// These run alone: they fill the machine, and one of them holds an answer against the clock.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/e2e/scenario.hpp"
#include "tests/support/raw_http_client.hpp"

using namespace mme::test;

namespace {

std::size_t descriptors(pid_t pid) {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

void allow_descriptors(std::size_t count) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, count);
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Most send a header or a body, one in sixteen takes a reply, all byte by byte. Replies are larger than what the
/// kernel keeps for a socket, or nobody would have to wait for their readers.
class SlowClients {
 public:
  SlowClients(unsigned short port, std::size_t count) {
    const std::string large = floats(std::vector<float>(600'000, 0.1234567F)).dump();
    const std::string post = "POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: ";
    for (std::size_t i = 0; i < count; ++i) {
      clients_.emplace_back(port, 60s);
      auto& client = clients_.back();
      if (reads(i)) {
        const int small = 4096;
        setsockopt(client.descriptor(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        client.send(post + std::to_string(large.size()) + "\r\n\r\n" + large);
      } else if (i % 2 == 0) {
        client.send("GET /ping HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
      } else {
        client.send(post + "100000\r\n\r\n{");
      }
    }
  }
  /// One byte of each.
  void drip() {
    char byte = 'a';
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      const int socket = clients_[i].descriptor();
      if (reads(i)) {
        (void)recv(socket, &byte, 1, MSG_DONTWAIT);
      } else {
        (void)send(socket, "a", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
      }
    }
  }

  [[nodiscard]] std::size_t readers() const { return (clients_.size() + 15) / 16; }
  /// The server has ended its side for all that send. Nothing tells a reader who does not read.
  [[nodiscard]] bool senders_are_cut() const {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      pollfd socket{clients_[i].descriptor(), POLLRDHUP, 0};
      if (!reads(i) && poll(&socket, 1, 0) == 0) return false;
    }
    return true;
  }

 private:
  static bool reads(std::size_t i) { return i % 16 == 0; }

  std::vector<RawHttpClient> clients_;
};

/// Milliseconds of each /ping of one client, while `going`.
std::vector<double> ping_times(unsigned short port, const std::atomic<bool>& going) {
  HttpClient client(port);
  std::vector<double> times;
  while (going) {
    const auto began = Clock::now();
    if (client.get("/ping").status != 200) throw std::runtime_error("/ping is not 200");
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - began).count());
    std::this_thread::sleep_for(5ms);
  }
  return times;
}

double percentile_99(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() * 99 / 100);
}

}  // namespace

TEST_CASE("F18: a thousand slow clients and four loads: /ping does not wait, and all descriptors come back",
          "[flood]") {
  allow_descriptors(4096);
  TempDir repository;
  install(repository.path(),
          {{"echo", "echo"}, {"a", "big64_0"}, {"b", "big64_1"}, {"c", "big64_2"}, {"d", "big64_3"}});
  const std::vector<std::string> short_times =
      set({"timeouts.header=3s", "timeouts.body_idle=3s", "timeouts.write_idle=3s", "timeouts.request=6s"});
  ServerProcess server(repository.path(), long_run() ? std::vector<std::string>{} : short_times);
  auto control = server.client();
  REQUIRE(infer(control, "echo").status == 200);
  const std::size_t before = descriptors(server.pid());
  const std::size_t count = kSanitized ? 100 : 1000;
  constexpr std::size_t kOthers = 20;  // the clients that load and ping, and the files that are being loaded

  std::atomic<bool> going{true};
  std::vector<double> times;
  double back_after = 0;
  std::vector<std::thread> others;
  for (const char* model : {"a", "b", "c", "d"}) {
    others.emplace_back([&server, &going, model] {
      auto client = server.client();
      while (going) {
        load(client, model);
        unload(client, model);
      }
    });
  }
  {
    SlowClients slow(server.port(), count);
    CHECK(eventually([&] { return descriptors(server.pid()) >= before + count; }));
    others.emplace_back([&] { times = ping_times(server.port(), going); });
    const auto until = Clock::now() + (long_run() ? 25s : 2s);
    while (Clock::now() < until) {
      slow.drip();
      std::this_thread::sleep_for(500ms);
    }
    // The clients still hold their ends, and would never let go: it is the server that does.
    CHECK(eventually([&] { return slow.senders_are_cut(); }, 120s));
    const auto cut = Clock::now();
    CHECK(eventually([&] { return descriptors(server.pid()) < before + kOthers + slow.readers(); }));
    back_after = std::chrono::duration<double>(Clock::now() - cut).count();
    // A reader is cut by closing its socket, so there is nothing between the two.
    CHECK(eventually([&] { return descriptors(server.pid()) < before + kOthers; }, 120s));
    going = false;
    for (auto& other : others) other.join();
  }
  CHECK(eventually([&] { return descriptors(server.pid()) <= before; }));
  const double slowest = percentile_99(times);
  WARN(count << " slow clients: /ping p99 " << slowest << " ms of " << times.size() << "; descriptors back after "
             << back_after << " s");
  REQUIRE(times.size() > 100);
  if (!kSanitized) CHECK(slowest < 100);
  if (!kSanitized) CHECK(back_after < 1);
  CHECK(infer(control, "echo").status == 200);
}

TEST_CASE("F19: without descriptors accepting waits and does not spin, and goes on when there are some", "[flood]") {
  if (kSanitized) return;  // the sanitizer opens pipes to look at objects, and takes them for broken when it cannot
  allow_descriptors(4096);
  TempDir repository;
  install(repository.path(), {{"echo", "echo"}});
  ServerProcess server(repository.path());
  auto seated = server.client();
  REQUIRE(infer(seated, "echo").status == 200);
  const std::size_t before = descriptors(server.pid());
  const rlimit few{before + 100, before + 100};
  REQUIRE(prlimit(server.pid(), RLIMIT_NOFILE, &few, nullptr) == 0);
  {
    std::vector<RawHttpClient> idle;
    for (int i = 0; i < 600; ++i) idle.emplace_back(server.port());
    const std::string none = "\nmme_accept_shortages_total 0\n";
    REQUIRE(eventually([&] { return seated.get("/metrics").body.find(none) == std::string::npos; }));
    const double began = cpu_seconds(server.pid());
    std::this_thread::sleep_for(2s);
    CHECK(cpu_seconds(server.pid()) - began < 0.5);
    CHECK(seated.get("/ping").status == 200);
    CHECK(infer(seated, "echo").status == 200);
  }
  CHECK(eventually([&] { return server.client().get("/ping").status == 200; }));
  CHECK(infer(seated, "echo").status == 200);
  CHECK(eventually([&] { return descriptors(server.pid()) <= before + 1; }));
}

TEST_CASE("F14: large replies are in the budget, and while they are written others are served", "[flood]") {
  TempDir repository;
  install(repository.path(), {{"huge", "hugeout"}, {"echo", "echo"}});
  // 200 MB as floats, and 200 MB as text ("1.0," each), twice that for its last move.
  ServerProcess server(repository.path(), set({"cache.memory_budget=512MiB", "limits.response=256MiB"}));
  std::atomic<bool> going{true};
  std::vector<double> times;
  std::vector<unsigned> answers;
  std::thread pings([&] { times = ping_times(server.port(), going); });
  auto client = server.client();
  for (int i = 0; i < rounds(1, 5); ++i) answers.push_back(infer(client, "huge").status);
  going = false;
  pings.join();
  for (const unsigned status : answers) CHECK((status == 200 || status == 507 || status == 413));
  CHECK(std::ranges::count(answers, 200U) > 0);
  CHECK(infer(client, "echo").status == 200);
  CHECK(eventually([&] { return server.metric("mme_memory_bytes{kind=\"bodies\"}") == 0; }));
  if (!kSanitized) {
    WARN("/ping p99 " << percentile_99(times) << " ms of " << times.size() << " while 200 MB replies are written");
    CHECK(percentile_99(times) < 100);
    CHECK(server.rss_bytes() < 900 * kMiB);
  }
}
