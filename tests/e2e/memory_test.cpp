// Memory under overcommit: what the server says stays in the budget, and what the kernel says in budget plus reserve.
#include "tests/e2e/memory_watch.hpp"

#include "tests/e2e/mixed_load.hpp"

using namespace mme::test;

TEST_CASE("Ten times overcommitted, the server stays within budget and reserve, and answers right or refuses",
          "[memory]") {
  constexpr std::size_t kBudget = 100 * kMiB;  // the models together: 650 MiB, and calls and loads of a gigabyte
  TempDir repository;
  install(repository.path(), mixed_models());
  // The kernel's own limit: the process as it starts, the budget and the reserve.
  MemoryGroup group(600 * kMiB);
  if (group) group.enter();
  ServerProcess server(repository.path(), mixed_settings(kBudget));
  if (group) group.leave();
  touch_libraries(server);
  const std::size_t base = proportional_bytes(server.pid());
  Tally tally;
  MemoryWatch watch(server);
  run_mixed(server, tally, long_run() ? 600s : kSanitized ? 10s : 60s);
  watch.stop();
  const auto reserve = static_cast<std::size_t>(server.metric("mme_memory_reserve_bytes"));
  WARN(tally.right << " right, " << tally.refused << " refused; sum of kinds at most " << watch.kinds() / kMiB << " of "
                   << kBudget / kMiB << " MiB, process at most " << (watch.process() - base) / double(kMiB)
                   << " MiB above its base of " << base / kMiB << ", " << watch.samples() << " samples");
  CHECK(tally.wrong == 0);
  CHECK(tally.right > (kSanitized ? 10 : 100));
  CHECK(tally.refused > 0);
  CHECK(watch.samples() > 100);
  CHECK(watch.kinds() <= kBudget);
  if (!kSanitized) CHECK(watch.process() <= base + kBudget + reserve);
  CHECK(server.terminate() == 0);
  if (group) CHECK(group.kills() == 0);
}

TEST_CASE("Memory that no meter sees comes off the budget while it is there: idle models go, nobody is killed",
          "[memory]") {
  if (kSanitized) return;  // the sanitizer's library wants to be the first that is preloaded
  TempDir repository;
  install(repository.path(), {{"a", "big64_0"}, {"b", "big64_1"}, {"c", "big64_2"}, {"echo", "echo"}});
  const auto hoard = repository.path() / "hoard";
  ServerProcess server(repository.path(), set({"cache.memory_budget=256MiB", "cache.activation_floor=16MiB"}),
                       {{"LD_PRELOAD", MME_HOARD_SHIM}, {"MME_TEST_HOARD", hoard.string()}});
  auto client = server.client();
  for (const char* model : {"a", "b", "c"}) REQUIRE(infer(client, model).status == 200);
  const auto budget = [&] { return server.metric("mme_memory_budget_bytes"); };
  REQUIRE(budget() == 256 * kMiB);
  // The reserve of at least 64 MiB takes a part of it; the rest of 300 MiB is more than two models.
  std::ofstream(hoard) << 300;
  CHECK(eventually([&] { return budget() < 150 * kMiB; }));
  CHECK(eventually([&] { return client.get("/models/a").status == 404; }));
  CHECK(server.metric("mme_cache_evictions_total{reason=\"budget\"}") >= 1);
  CHECK(eventually([&] { return server.metric("mme_memory_uncounted_bytes") > 250 * kMiB; }));
  CHECK(infer(client, "echo").status == 200);
  CHECK(events(server, "memory_uncounted").size() >= 1);
  std::ofstream(hoard) << 0;
  CHECK(eventually([&] { return budget() == 256 * kMiB; }));
  for (const char* model : {"a", "b", "c"}) CHECK(infer(client, model).status == 200);
  CHECK(events(server, "memory_uncounted_gone").size() >= 1);
}
