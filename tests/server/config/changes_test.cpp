// What a reload would change, what an admin call hides, and which settings take a restart.
#include "server/config/changes.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

using namespace mme::server;

namespace {

using Lines = std::vector<std::string>;

Resolved resolved(const std::string& file, std::vector<Assignment> flags = {}, Environment environment = {}) {
  Disk disk;
  disk.read_file = [file](const std::string&) -> mme::loader::Result<std::string> { return file; };
  disk.folder_exists = [](const std::string&) { return false; };
  return resolve({"/etc/mme/f.yaml", std::move(environment), std::move(flags), true}, disk);
}

Lines shadowed(const Changes& changes) {
  Lines lines;
  for (const auto& change : changes.shadowed) lines.push_back(change.key + " by " + change.by);
  return lines;
}

const std::vector<Assignment> kBudgetCall{{"PUT /admin/budget", "cache.memory_budget", "300MiB"}};

}  // namespace

TEST_CASE("a reload tells what it changes, by key", "[reload]") {
  const auto before = resolved("cache: {room_wait: 5s}\nmodels: {a: {pinned: true}, b: {timeout: 1s}}");
  const auto after = resolved("cache: {claim_after: 2s}\nmodels: {a: {pinned: true, queue_size: 3}}");
  const auto changes = changes_between(before, after);
  CHECK(changes.live == Lines{"cache.claim_after", "cache.room_wait", "models.a.queue_size", "models.b.timeout"});
  CHECK(changes.at_restart.empty());
  CHECK(changes.shadowed.empty());
  CHECK(changes_between(before, before).live.empty());
}

TEST_CASE("what the program is built around takes a restart", "[reload]") {
  const auto changes = changes_between(resolved(""), resolved("mode: platform\nthreads: {io: 7}\nlog: {level: error}"));
  CHECK(changes.live == Lines{"log.level"});
  CHECK(changes.at_restart == Lines{"listeners.host", "mode", "repository.path", "threads.io"});
  Lines keys_at_restart;
  for (const auto& key : keys()) {
    if (!key.live) keys_at_restart.emplace_back(key.name);
  }
  CHECK(keys_at_restart == Lines{"mode", "repository.path", "repository.state", "listeners.host", "listeners.port",
                                 "admin.token_file", "threads.io", "threads.compute", "threads.loader",
                                 "threads.intra_op", "cache.prefault", "cache.map", "limits.running_calls",
                                 "metrics.per_model"});
}

TEST_CASE("a new token takes a restart and is not told", "[reload]") {
  const auto before = resolved("", {}, {{"MME_ADMIN_TOKEN", "secret-one"}});
  const auto after = resolved("", {}, {{"MME_ADMIN_TOKEN", "secret-two"}});
  CHECK(changes_between(before, after).at_restart == Lines{"admin.token"});
}

TEST_CASE("a change that a flag or a variable hides is told with what hides it", "[reload]") {
  const std::vector<Assignment> flags{{"--port", "listeners.port", "1"}};
  const Environment environment{{"SAGEMAKER_MAX_PAYLOAD_IN_MB", "6"}};
  const auto of = [&](const std::string& file) { return resolved(file, flags, environment); };
  const auto changes = changes_between(of("listeners: {port: 2}"), of("listeners: {port: 3}\nlimits: {body: 1MiB}"));
  CHECK(changes.live.empty());
  CHECK(changes.at_restart.empty());
  CHECK(shadowed(changes) ==
        Lines{"limits.body by environment SAGEMAKER_MAX_PAYLOAD_IN_MB", "listeners.port by flag --port"});
  // What was hidden before and is the same is no news.
  CHECK(changes_between(of("listeners: {port: 2}"), of("listeners: {port: 2}")).shadowed.empty());
}

TEST_CASE("an admin call wins over flags and file until the end, and says so", "[reload]") {
  const auto file = resolved("cache: {memory_budget: 100MiB}");
  const auto called = with_admin(file, kBudgetCall);
  CHECK(called.problems.empty());
  CHECK(called.settings.cache.memory_budget == 300U << 20);
  CHECK(called.origin("cache.memory_budget").text() == "admin call PUT /admin/budget");
  CHECK(changes_between(file, called).live == Lines{"cache.memory_budget"});
  CHECK(shadowed(changes_between(file, called)).empty());
  // A reload that leaves the budget alone leaves the call in force and says nothing; another budget is told.
  const auto same = with_admin(resolved("cache: {memory_budget: 100MiB, room_wait: 1s}"), kBudgetCall);
  CHECK(changes_between(called, same).live == Lines{"cache.room_wait"});
  CHECK(changes_between(called, same).shadowed.empty());
  const auto other = with_admin(resolved("cache: {memory_budget: 200MiB}"), kBudgetCall);
  CHECK(changes_between(called, other).live.empty());
  CHECK(shadowed(changes_between(called, other)) == Lines{"cache.memory_budget by admin call PUT /admin/budget"});
  const auto flag = resolved("", {{"--memory-budget", "cache.memory_budget", "1GiB"}});
  CHECK(with_admin(flag, kBudgetCall).settings.cache.memory_budget == 300U << 20);
}

TEST_CASE("a bad budget of a call is a problem and changes nothing", "[reload]") {
  const auto called = with_admin(resolved(""), {{"PUT /admin/budget", "cache.memory_budget", "5XB"}});
  REQUIRE(called.problems.size() == 1);
  CHECK(called.problems[0].text().starts_with("PUT /admin/budget: cache.memory_budget: not a size"));
}

TEST_CASE("problems for clients name the file without its folders", "[reload]") {
  const auto bad = resolved("cache:\n  room_wait: 5\n");
  REQUIRE(bad.problems.size() == 1);
  CHECK(bad.problems[0].text().starts_with("f.yaml:2: cache.room_wait: "));
}

TEST_CASE("aliases belong to one model and hide no model with settings", "[reload]") {
  const auto problems = [](const std::string& file) {
    Lines lines;
    for (const auto& problem : resolved(file).problems) lines.push_back(problem.text());
    return lines;
  };
  CHECK(problems("models: {a: {aliases: [x, y]}, b: {aliases: [z]}}").empty());
  CHECK(problems("models:\n  a: {aliases: [x]}\n  b: {aliases: [x]}") ==
        Lines{"f.yaml:3: models.b.aliases: 'x' is an alias of 'a' already"});
  CHECK(problems("models:\n  a: {aliases: [b]}\n  b: {pinned: true}") ==
        Lines{"f.yaml:2: models.a.aliases: 'b' is a model of its own already"});
  CHECK(problems("models: {a: {aliases: [a]}}").size() == 1);
  const auto good = resolved("models: {team/a: {aliases: [x, y]}}").settings;
  CHECK(good.real_name("y") == "team/a");
  CHECK(good.real_name("team/a") == "team/a");
  CHECK(good.real_name("z") == "z");
}
