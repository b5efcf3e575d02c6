// Counting of a load run.
// No printing.
#include "server/loadgen/load_report.hpp"

namespace mme::server {

Outcome classify(unsigned status, const std::string& reason, bool right) {
  if (status >= 200 && status < 300) return right ? Outcome::ok : Outcome::wrong;
  return reason.empty() || reason == "internal" ? Outcome::undeclared : Outcome::refused;
}

void TargetReport::add(Outcome outcome, const std::string& what, std::chrono::nanoseconds took) {
  ++requests;
  switch (outcome) {
    case Outcome::ok:
      ++ok;
      latency.add(took);
      return;
    case Outcome::wrong: ++wrong; break;
    case Outcome::refused: ++refused; break;
    case Outcome::undeclared: ++undeclared; break;
    case Outcome::no_answer: ++no_answer; break;
  }
  ++failures[what];
}

void TargetReport::merge(const TargetReport& other) {
  requests += other.requests;
  ok += other.ok;
  refused += other.refused;
  wrong += other.wrong;
  undeclared += other.undeclared;
  no_answer += other.no_answer;
  for (const auto& [what, count] : other.failures) failures[what] += count;
  latency.merge(other.latency);
}

TargetReport LoadReport::total() const {
  TargetReport sum;
  sum.name = "total";
  for (const TargetReport& target : targets) sum.merge(target);
  return sum;
}

}  // namespace mme::server
