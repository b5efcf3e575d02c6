// Reading of Prometheus text.
#include "server/loadgen/metrics_text.hpp"

#include "tests/support/catch.hpp"

using mme::server::MetricsText;

namespace {

constexpr const char* kPage =
    "# HELP mme_cache_hits_total hits\n"
    "# TYPE mme_cache_hits_total counter\n"
    "mme_cache_hits_total{model=\"a\"} 3\n"
    "mme_cache_hits_total{model=\"b\"} 4\n"
    "mme_memory_budget_bytes 1.5e+08\n"
    "mme_cache_evictions_total{reason=\"room\",device=\"cpu\"} 7 1700000000\n"
    "odd{text=\"quote \\\" comma , brace } back \\\\ line \\n end\"} 1\n"
    "mme_request_seconds_bucket{le=\"+Inf\"} 9\n"
    "endless +Inf\n"
    "broken{model=\"x\n"
    "broken{model=} 5\n"
    "broken\n"
    "last 2";

}  // namespace

TEST_CASE("samples are found by name and labels") {
  const MetricsText page(kPage);
  CHECK(page.sum("mme_cache_hits_total", {{"model", "a"}}) == 3);
  CHECK(page.sum("mme_cache_hits_total") == 7);
  CHECK(page.sum("mme_cache_hits_total", {{"model", "c"}}) == 0);
  CHECK(page.sum("mme_memory_budget_bytes") == 150e6);
  CHECK(page.sum("mme_cache_evictions_total", {{"reason", "room"}}) == 7);
  CHECK(page.sum("last") == 2);
}

TEST_CASE("escaped label values and infinities are read") {
  const MetricsText page(kPage);
  CHECK(page.sum("odd", {{"text", "quote \" comma , brace } back \\ line \n end"}}) == 1);
  CHECK(page.sum("mme_request_seconds_bucket", {{"le", "+Inf"}}) == 9);
  CHECK(page.sum("endless") > 1e300);
}

TEST_CASE("comments and broken lines are skipped") {
  const MetricsText page(kPage);
  CHECK_FALSE(page.has("broken"));
  CHECK_FALSE(page.has("HELP"));
  CHECK(page.samples().size() == 8);
  CHECK(MetricsText("").samples().empty());
}
