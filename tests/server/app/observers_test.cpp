// Threads that are stuck are replaced, and leave when the work has ended after all.
#include "server/app/observers.hpp"

#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;
using cache::StuckWork;

TEST_CASE("the pool of what is stuck grows by one for each, and shrinks again", "[app]") {
  WorkerPool compute({.name = "compute", .threads = 2});
  WorkerPool loads({.name = "load", .threads = 1});
  StuckThreads stuck(compute, loads);
  const loader::ModelSpec spec;
  stuck.quarantined(spec, StuckWork::call);
  stuck.quarantined(spec, StuckWork::call);
  stuck.quarantined(spec, StuckWork::load);
  CHECK(compute.threads() == 4);
  CHECK(loads.threads() == 2);
  stuck.recovered(spec, StuckWork::call);
  stuck.recovered(spec, StuckWork::load);
  CHECK(compute.threads() == 3);
  CHECK(loads.threads() == 1);
}

TEST_CASE("an end of stuck work that is told before its beginning leaves the pool as it was", "[app]") {
  WorkerPool compute({.name = "compute", .threads = 1});
  WorkerPool loads({.name = "load", .threads = 1});
  StuckThreads stuck(compute, loads);
  const loader::ModelSpec spec;
  stuck.recovered(spec, StuckWork::call);
  CHECK(compute.threads() == 1);
  stuck.quarantined(spec, StuckWork::call);
  CHECK(compute.threads() == 1);
}
