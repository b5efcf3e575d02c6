// Metric names, the cap on series per model, and what /status says.
#include "server/metrics/metrics.hpp"

#include <nlohmann/json.hpp>

#include "server/metrics/operations.hpp"
#include "server/metrics/process_memory.hpp"
#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;

namespace {

loader::ModelSpec model(const std::string& name) {
  loader::ModelSpec spec;
  spec.name = name;
  return spec;
}

cache::CacheStatus some_status() {
  cache::CacheStatus status;
  status.budget = 1000;
  status.used = {1, 2, 3, 4, 5, 6};
  cache::EntryStatus entry;
  entry.spec = model("m\"quote");
  entry.state = cache::ModelState::ready;
  entry.weight_bytes = 100;
  entry.mapped_bytes = 90;
  entry.way = loader::LoadWay::mapped;
  entry.way_reason = "2 weights compressed or unaligned";
  entry.eviction_rank = 0;
  status.entries.push_back(entry);
  return status;
}

std::string scrape(Metrics& metrics) {
  return metrics.text({some_status, 77});
}

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line) != std::string::npos;
}

}  // namespace

TEST_CASE("the memory kinds, the budget and the reserve are gauges", "[metrics]") {
  Metrics metrics("1.2.3", 10);
  const std::string text = scrape(metrics);
  CHECK(has(text, "mme_memory_bytes{kind=\"weights\"} 1\n"));
  CHECK(has(text, "mme_memory_bytes{kind=\"bodies\"} 6\n"));
  CHECK(has(text, "mme_memory_budget_bytes 1000\n"));
  CHECK(has(text, "mme_memory_reserve_bytes 77\n"));
  CHECK(has(text, "mme_models{state=\"ready\"} 1\n"));
  CHECK(has(text, "mme_build_info{version=\"1.2.3\"} 1\n"));
}

TEST_CASE("models beyond the cap share the empty label", "[metrics]") {
  Metrics metrics("1", 2);
  for (const char* name : {"a", "b", "c", "d", "a"}) metrics.found(model(name), cache::CacheResult::hit);
  const std::string text = scrape(metrics);
  CHECK(has(text, "mme_cache_hits_total{model=\"a\"} 2\n"));
  CHECK(has(text, "mme_cache_hits_total{model=\"b\"} 1\n"));
  CHECK(has(text, "mme_cache_hits_total{model=\"\"} 2\n"));
  CHECK_FALSE(has(text, "mme_cache_hits_total{model=\"c\"}"));
}

TEST_CASE("requests for names that do not exist make one series", "[metrics]") {
  Metrics metrics("1", 1000);
  AccessRecord record;
  record.dialect = "oip_v2";
  for (int i = 0; i < 1000; ++i) metrics.request({record, 404, 0.001});
  CHECK(has(scrape(metrics), "mme_requests_total{dialect=\"oip_v2\",model=\"\",status=\"404\"} 1000\n"));
}

TEST_CASE("loads, misses, joins, evictions and refusals are counted", "[metrics]") {
  Metrics metrics("1", 10);
  const loader::Error error{loader::ErrorCode::all_in_use, "no room"};
  metrics.found(model("a"), cache::CacheResult::miss);
  metrics.found(model("a"), cache::CacheResult::joined);
  metrics.load_ended(model("a"), 10, std::chrono::milliseconds(2), nullptr);
  metrics.load_ended(model("a"), 0, std::chrono::milliseconds(2), &error);
  metrics.evicted(model("a"), 10, cache::EvictionReason::room, "b");
  metrics.refused(model("a"), error);
  const std::string text = scrape(metrics);
  CHECK(has(text, "mme_model_loads_total{model=\"a\"} 1\n"));
  CHECK(has(text, "mme_model_load_failures_total{model=\"a\"} 1\n"));
  CHECK(has(text, "mme_cache_misses_total 1\n"));
  CHECK(has(text, "mme_cache_joined_total 1\n"));
  CHECK(has(text, "mme_cache_evictions_total{reason=\"room\"} 1\n"));
  CHECK(has(text, "mme_cache_refusals_total{reason=\"all_in_use\"} 1\n"));
}

TEST_CASE("sizes that are not as expected are counted by model", "[metrics]") {
  Metrics metrics("1", 1);
  metrics.size_drifted(model("a"), 10, 20);
  metrics.model_grew(model("a"), 10, 20);
  metrics.model_grew(model("b"), 10, 20);
  const std::string text = scrape(metrics);
  CHECK(has(text, "mme_size_drift_total{model=\"a\"} 1\n"));
  CHECK(has(text, "mme_model_growth_total{model=\"a\"} 1\n"));
  CHECK(has(text, "mme_model_growth_total{model=\"\"} 1\n"));
}

TEST_CASE("/status is JSON whatever the names are", "[metrics]") {
  const auto json = nlohmann::json::parse(status_json({"1", "self_managed", "auto", 7}, some_status()));
  CHECK(json["memory"]["used_bytes"] == 21);
  CHECK(json["memory"]["reserve_bytes"] == 7);
  CHECK(json["models"][0]["name"] == "m\"quote");
  CHECK(json["models"][0]["mapped_bytes"] == 90);
  CHECK(json["models"][0]["loaded"] == "mapped");
  CHECK(json["models"][0]["loaded_reason"] == "2 weights compressed or unaligned");
  CHECK(json["models"][0]["goes_next_rank"] == 0);
}

TEST_CASE("process memory is read from the kernel's text", "[metrics]") {
  const auto memory = parse_process_memory("Name:\tmme\nVmRSS:\t    1234 kB\nRssAnon:\t     1000 kB\n");
  CHECK(memory.rss_bytes == 1234 * 1024);
  CHECK(memory.anon_bytes == 1000 * 1024);
  CHECK(parse_process_memory("").rss_bytes == 0);
  CHECK(process_memory().rss_bytes > 0);
}
