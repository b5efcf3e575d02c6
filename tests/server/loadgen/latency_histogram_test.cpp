// Percentiles of the log-linear histogram.
#include "server/loadgen/latency_histogram.hpp"

#include "tests/support/catch.hpp"

using mme::server::LatencyHistogram;
using std::chrono::microseconds;

TEST_CASE("an empty histogram answers zero") {
  const LatencyHistogram none;
  CHECK(none.count() == 0);
  CHECK(none.percentile(0.5) == microseconds(0));
}

TEST_CASE("small values are exact") {
  LatencyHistogram histogram;
  for (int us = 1; us <= 50; ++us) histogram.add(microseconds(us));
  CHECK(histogram.percentile(0.5) == microseconds(25));
  CHECK(histogram.percentile(0.98) == microseconds(49));
  CHECK(histogram.percentile(0) == microseconds(1));
  CHECK(histogram.percentile(1) == microseconds(50));
}

TEST_CASE("large values are right within 1/32 and never above the largest") {
  for (const std::int64_t us :
       {63LL, 64LL, 65LL, 127LL, 128LL, 1000LL, 4095LL, 4096LL, 1'000'003LL, 70'000'000'000LL}) {
    LatencyHistogram histogram;
    histogram.add(microseconds(us));
    CHECK(histogram.percentile(0.5) == microseconds(us));  // clamped to the largest
    histogram.add(microseconds(us * 3));
    const auto found = histogram.percentile(0.5).count();
    INFO(us);
    CHECK(found >= us);
    CHECK(found <= us + us / 32);
  }
}

TEST_CASE("a bucket is named by the largest value that falls into it") {
  LatencyHistogram histogram;
  histogram.add(microseconds(64));
  histogram.add(microseconds(128));
  histogram.add(microseconds(4096));
  histogram.add(microseconds(99999));
  CHECK(histogram.percentile(0.25) == microseconds(65));
  CHECK(histogram.percentile(0.50) == microseconds(131));
  CHECK(histogram.percentile(0.75) == microseconds(4223));
}

TEST_CASE("a negative duration counts as zero") {
  LatencyHistogram histogram;
  histogram.add(microseconds(-5));
  CHECK(histogram.count() == 1);
  CHECK(histogram.max() == microseconds(0));
}

TEST_CASE("merged histograms answer as one that saw everything") {
  LatencyHistogram left;
  LatencyHistogram right;
  LatencyHistogram both;
  for (int i = 1; i < 2000; ++i) {
    (i % 3 == 0 ? left : right).add(microseconds(i * i));
    both.add(microseconds(i * i));
  }
  left.merge(right);
  CHECK(left.count() == both.count());
  CHECK(left.max() == both.max());
  for (const double share : {0.1, 0.5, 0.9, 0.99, 0.999}) CHECK(left.percentile(share) == both.percentile(share));
}
