// Settings files: good ones, and the table of bad ones, each refused with line, key and reason.
#include "server/config/settings_file.hpp"

#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace std::chrono_literals;

namespace {

Draft read(std::string_view text) {
  Draft draft;
  read_settings_file("x.yaml", text, draft);
  return draft;
}

std::vector<std::string> problems(std::string_view text) {
  std::vector<std::string> lines;
  for (const auto& problem : read(text).problems) lines.push_back(problem.text());
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a full file sets everything, with the line as its origin", "[config]") {
  const Draft draft = read(R"(
mode: single
repository: {path: /srv/models, state: off}
listeners:
  - host: 0.0.0.0
    port: 9000
admin: {token_file: /etc/token}
threads: {io: 3, compute: 5, loader: 7, intra_op: 2}
cache:
  memory_budget: 2GiB
  activation_floor: "100MB"
  room_wait: 5s
  claim_after: 250ms
  load_timeout: 1m
  idle_unload: 2h
  prefault: false
  map: trusted
  pinned: [a, team/b]
  preload:
    - c
limits: {body: 1MiB, response: 2MiB, headers: 4KiB, connections: 10, running_calls: 3}
timeouts: {header: 1s, body_idle: 2s, write_idle: 3s, request: 4s, keep_alive: 5s, drain: 6s, drain_delay: 7s}
queue: {size: 9}
metrics: {per_model: 0}
log: {level: error}
models:
  team/bert.v2: {pinned: true, replace: offline}
)");
  for (const auto& problem : draft.problems) UNSCOPED_INFO(problem.text());
  REQUIRE(draft.problems.empty());
  const Settings& s = draft.settings;
  CHECK(s.mode == Mode::single);
  CHECK(s.repository.path == "/srv/models");
  CHECK(s.repository.state == "off");
  CHECK(s.listener.host == "0.0.0.0");
  CHECK(s.listener.port == 9000);
  CHECK(s.admin.token_file == "/etc/token");
  CHECK(s.threads.io == 3);
  CHECK(s.threads.compute == 5U);
  CHECK(s.threads.loader == 7);
  CHECK(s.threads.intra_op == 2);
  CHECK(s.cache.memory_budget == 2'147'483'648U);
  CHECK(s.cache.activation_floor == 100'000'000U);
  CHECK(s.cache.room_wait == 5s);
  CHECK(s.cache.claim_after == 250ms);
  CHECK(s.cache.load_timeout == 1min);
  CHECK(s.cache.idle_unload == milliseconds(2h));
  CHECK_FALSE(s.cache.prefault);
  CHECK(s.cache.map == MapFiles::trusted);
  CHECK(s.cache.pinned == Lines{"a", "team/b"});
  CHECK(s.cache.preload == Lines{"c"});
  CHECK(s.limits.body == 1'048'576);
  CHECK(s.limits.response == 2'097'152);
  CHECK(s.limits.headers == 4'096);
  CHECK(s.limits.connections == 10);
  CHECK(s.limits.running_calls == 3U);
  CHECK(s.timeouts.header == 1s);
  CHECK(s.timeouts.body_idle == 2s);
  CHECK(s.timeouts.write_idle == 3s);
  CHECK(s.timeouts.request == 4s);
  CHECK(s.timeouts.keep_alive == 5s);
  CHECK(s.timeouts.drain == 6s);
  CHECK(s.timeouts.drain_delay == 7s);
  CHECK(s.queue.size == 9);
  CHECK(s.metrics.per_model == 0);
  CHECK(s.options_of("team/bert.v2").pinned);
  CHECK(s.options_of("team/bert.v2").replace == Replace::offline);
  CHECK(s.options_of("other").replace == std::nullopt);
  CHECK(s.options_of("a").pinned);
  CHECK_FALSE(s.options_of("other").pinned);
  CHECK(draft.origin("cache.room_wait").text() == "file x.yaml:12");
  CHECK(draft.origin("models.team/bert.v2.pinned").text() == "file x.yaml:27");
  // All keys but none twice: a key that is added to the table must be added here.
  for (const auto& key : keys()) {
    INFO(key.name);
    CHECK(draft.origin(std::string(key.name)).layer == Layer::file);
  }
}

TEST_CASE("words stand for what a number cannot say", "[config]") {
  const Draft draft = read(
      "cache: {memory_budget: auto, activation_floor: auto, idle_unload: off}\n"
      "threads: {compute: auto}\nlimits: {running_calls: off}\n");
  CHECK(draft.problems.empty());
  CHECK_FALSE(draft.settings.cache.memory_budget);
  CHECK_FALSE(draft.settings.cache.idle_unload);
  CHECK_FALSE(draft.settings.threads.compute);
}

TEST_CASE("an empty file, or empty sections, set nothing", "[config]") {
  for (const char* text : {"", "# nothing\n", "cache:\nmodels:\nlisteners:\n", "---\n"}) {
    INFO(text);
    const Draft draft = read(text);
    CHECK(draft.problems.empty());
    CHECK(draft.origins.empty());
  }
}

TEST_CASE("G12: bad files are refused with line, key and reason", "[config]") {
  const std::pair<const char*, const char*> table[] = {
#include "tests/server/config/bad_settings.inc"
  };
  for (const auto& [text, problem] : table) {
    INFO(text);
    const auto found = problems(text);
    REQUIRE_FALSE(found.empty());
    CHECK(found.front() == problem);
    CHECK(found.size() == 1);
  }
}

TEST_CASE("a problem is one printable line, whatever was written", "[config]") {
  CHECK(problems("\"a\\nb\\e[31m\": 1") == Lines{"x.yaml:1: a?b?[31m: unknown setting"});
  CHECK(problems("cache: {pinned: [\"a\\nb\"]}") == Lines{"x.yaml:1: cache.pinned: 'a?b' is not a model name"});
}

TEST_CASE("every problem of a file is told, and bad values change nothing", "[config]") {
  const char* text = "prot: 1\nqueue: {size: 0}\nthreads:\n  io: 5\n  loader: x\nmodels: {a: {pin: 1}}\n";
  CHECK(problems(text) == Lines{"x.yaml:1: prot: unknown setting",
                                "x.yaml:2: queue.size: must be between 1 and 1000000",
                                "x.yaml:5: threads.loader: not a plain number of digits",
                                "x.yaml:6: models.a.pin: unknown setting of a model"});
  const Draft draft = read(text);
  CHECK(draft.settings.queue.size == 128);
  CHECK(draft.settings.threads.io == 5);
  CHECK(draft.settings.threads.loader == 2);
}
