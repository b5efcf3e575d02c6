// What a load run found, by target: how requests ended and how long they took.
// Only counting; load_generator fills it in, callers print it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/loadgen/latency_histogram.hpp"

namespace mme::server {

/// How one request ended.
enum class Outcome {
  ok,          ///< 2xx, and the answer was right where the target can tell
  wrong,       ///< 2xx with a wrong answer
  refused,     ///< a declared refusal: an error that carries X-MME-Reason, but for `internal`
  undeclared,  ///< any other status
  no_answer,   ///< connection refused, closed or silent past the time-out
};

/// Of a reply with that status and X-MME-Reason ("" when absent); `right`: what the target's check said.
[[nodiscard]] Outcome classify(unsigned status, const std::string& reason, bool right);

struct TargetReport {
  std::string name;
  std::uint64_t requests = 0;
  std::uint64_t ok = 0;
  std::uint64_t refused = 0;
  std::uint64_t wrong = 0;
  std::uint64_t undeclared = 0;
  std::uint64_t no_answer = 0;
  std::map<std::string, std::uint64_t> failures;  ///< "507 all_in_use" -> how often; not for ok
  LatencyHistogram latency;                       ///< of ok requests, from sending to the whole reply

  void add(Outcome outcome, const std::string& what, std::chrono::nanoseconds latency);
  void merge(const TargetReport& other);
  /// Requests that a correct server never gives cause to count.
  [[nodiscard]] std::uint64_t defects() const { return wrong + undeclared + no_answer; }
};

struct LoadReport {
  std::vector<TargetReport> targets;    ///< in the order of the plan
  std::chrono::nanoseconds elapsed{0};  ///< from the common start to the last reply

  /// All targets together, named "total".
  [[nodiscard]] TargetReport total() const;
};

}  // namespace mme::server
