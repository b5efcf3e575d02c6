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
repository: {path: /srv/models}
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
      // Keys.
      {"prot: 1", "x.yaml:1: prot: unknown setting"},
      {"cache:\n  budget: 1GiB", "x.yaml:2: cache.budget: unknown setting"},
      {"\n\ncache: {evicted_pages: cold}", "x.yaml:3: cache.evicted_pages: unknown setting"},
      {"cache: {map: mine}", "x.yaml:1: cache.map: must be leased, trusted or off"},
      {"cache.room_wait: 1s", "x.yaml:1: cache.room_wait: unknown setting; sections are nested, not written with dots"},
      {"Cache: {}", "x.yaml:1: Cache: unknown setting"},
      {"<<: {cache: {}}", "x.yaml:1: <<: unknown setting"},
      {"admin: {token: secret}", "x.yaml:1: admin.token: unknown setting"},
      {"queue: {size: 1}\nqueue: {size: 2}", "x.yaml:2: queue: repeated key, first given in line 1"},
      {"queue:\n  size: 1\n  size: 2", "x.yaml:3: queue.size: repeated key, first given in line 2"},
      {"models: {a: {pinned: true}, a: {}}", "x.yaml:1: models.a: repeated key, first given in line 1"},
      // Shapes.
      {"just text", "x.yaml:1: must be a map of settings"},
      {"- a\n- b", "x.yaml:1: must be a map of settings"},
      {"cache: 5", "x.yaml:1: cache: must be a section with settings in it"},
      {"cache: [a]", "x.yaml:1: cache: must be a section with settings in it"},
      {"queue:\n  size:", "x.yaml:2: queue.size: has no value"},
      {"queue: {size: ~}", "x.yaml:1: queue.size: has no value"},
      {"queue: {size: [1]}", "x.yaml:1: queue.size: takes one value, not a list"},
      {"queue: {size: {a: 1}}", "x.yaml:1: queue.size: takes a value, not a section"},
      {"cache: {pinned: [[a]]}", "x.yaml:1: cache.pinned: takes a list of plain values"},
      {"listeners: [{port: 1}, {port: 2}]", "x.yaml:1: listeners: must have exactly one listener"},
      {"listeners: []", "x.yaml:1: listeners: must have exactly one listener"},
      {"listeners: 8080", "x.yaml:1: listeners: must be a section with settings in it"},
      // Numbers.
      {"queue: {size: 010}", "x.yaml:1: queue.size: a number must not begin with 0, it looks octal"},
      {"queue: {size: 0o10}", "x.yaml:1: queue.size: not a plain number of digits"},
      {"queue: {size: 0x10}", "x.yaml:1: queue.size: not a plain number of digits"},
      {"queue: {size: -1}", "x.yaml:1: queue.size: not a plain number of digits"},
      {"queue: {size: 1.5}", "x.yaml:1: queue.size: not a plain number of digits"},
      {"queue: {size: 1e3}", "x.yaml:1: queue.size: not a plain number of digits"},
      {"queue: {size: many}", "x.yaml:1: queue.size: not a plain number of digits"},
      {"queue: {size: true}", "x.yaml:1: queue.size: not a plain number of digits"},
      {"queue: {size: '7'}", "x.yaml:1: queue.size: takes a bare value, without quotes"},
      {"queue: {size: ''}", "x.yaml:1: queue.size: takes a bare value, without quotes"},
      {"queue: {size: 0}", "x.yaml:1: queue.size: must be between 1 and 1000000"},
      {"queue: {size: 99999999999999999999}", "x.yaml:1: queue.size: the number is too large"},
      {"listeners: {port: 65536}", "x.yaml:1: listeners.port: must be between 0 and 65535"},
      {"threads: {compute: off}", "x.yaml:1: threads.compute: not a plain number of digits, or auto"},
      // Sizes and durations.
      {"cache: {memory_budget: 0}", "x.yaml:1: cache.memory_budget: a size of 0 is not allowed"},
      {"cache: {memory_budget: -1}", "x.yaml:1: cache.memory_budget: not a number"},
      {"cache: {memory_budget: 5XB}",
       "x.yaml:1: cache.memory_budget: not a size: the unit must be KB, MB, GB, KiB, MiB or GiB, or none"},
      {"cache: {memory_budget: abc}", "x.yaml:1: cache.memory_budget: not a number"},
      {"cache: {memory_budget: 1e3}",
       "x.yaml:1: cache.memory_budget: not a size: the unit must be KB, MB, GB, KiB, MiB or GiB, or none"},
      {"cache: {memory_budget: 010}", "x.yaml:1: cache.memory_budget: a number must not begin with 0, it looks octal"},
      {"cache: {memory_budget: 9999999999GiB}", "x.yaml:1: cache.memory_budget: the size is too large"},
      {"cache: {memory_budget: 'auto'}", "x.yaml:1: cache.memory_budget: not a number"},
      {"limits: {headers: 2MiB}", "x.yaml:1: limits.headers: must be at most 1MiB"},
      {"cache: {room_wait: 30}", "x.yaml:1: cache.room_wait: a duration needs a unit: us, ms, s, m or h"},
      {"cache: {room_wait: 30d}", "x.yaml:1: cache.room_wait: not a duration: the unit must be us, ms, s, m or h"},
      {"cache: {room_wait: 0s}", "x.yaml:1: cache.room_wait: must be at least 1ms"},
      {"cache: {room_wait: 1500us}", "x.yaml:1: cache.room_wait: must be whole milliseconds"},
      {"cache: {room_wait: off}", "x.yaml:1: cache.room_wait: not a number"},
      // Texts and names.
      {"mode: Platform", "x.yaml:1: mode: must be self_managed, platform or single"},
      {"mode: true", "x.yaml:1: mode: must be self_managed, platform or single"},
      {"repository: {path: ''}", "x.yaml:1: repository.path: must not be empty"},
      {"repository: {path: yes}", "x.yaml:1: repository.path: takes text; put it in quotes if it is meant"},
      {"repository: {path: 1.5}", "x.yaml:1: repository.path: takes text; put it in quotes if it is meant"},
      {"repository: {path: 2026}", "x.yaml:1: repository.path: takes text; put it in quotes if it is meant"},
      {"repository: {path: \"a\\nb\"}", "x.yaml:1: repository.path: must not hold control characters"},
      {"cache: {pinned: [../x]}", "x.yaml:1: cache.pinned: '../x' is not a model name"},
      {"cache: {pinned: [a, b, a]}", "x.yaml:1: cache.pinned: 'a' is listed twice"},
      {"cache: {preload: ['']}", "x.yaml:1: cache.preload: '' is not a model name"},
      // Models.
      {"models: [a]", "x.yaml:1: models: must be a section with model names in it"},
      {"models: {a: true}", "x.yaml:1: models.a: must be a section with settings of the model in it"},
      {"models: {a: {pin: true}}", "x.yaml:1: models.a.pin: unknown setting of a model"},
      {"models: {a: {pinned: yes}}", "x.yaml:1: models.a.pinned: must be true or false"},
      {"models: {a: {pinned: 'true'}}", "x.yaml:1: models.a.pinned: takes a bare value, without quotes"},
      {"models: {a: {replace: never}}", "x.yaml:1: models.a.replace: must be beside or offline"},
      {"models: {../a: {pinned: true}}", "x.yaml:1: models.../a.pinned: not a model name"},
      {"models: {a: {pinned: }}", "x.yaml:1: models.a.pinned: has no value"},
      {"models: {a: {pinned: [true]}}", "x.yaml:1: models.a.pinned: takes one value, not a list"},
      // YAML itself.
      {"queue: &q {size: 1}", "x.yaml:1: queue: anchors (&name) are not allowed"},
      {"queue: {size: !!int 1}", "x.yaml:1: queue.size: tags (!name) are not allowed"},
      {"queue:\n\tsize: 1", "x.yaml:2: a tab; indent and separate with spaces"},
      {"queue: {size: 1}\n---\nqueue: {size: 2}", "x.yaml:2: a second document begins here, there must be one only"},
      {"%YAML 1.2\n---\nqueue: {size: 1}", "x.yaml:1: directives (%) are not allowed"},
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
