// The check that every suite's error replies go through sees what it is there for.
#include "tests/support/leak_check.hpp"

#include "tests/support/catch.hpp"

using mme::test::leaked;

TEST_CASE("an error that tells of the machine is seen", "[leak]") {
  for (const char* text : {"cannot open /tmp/mme-test-x/m.pt", "in /root/models", "at /home/x",
                           "/usr/lib/libtorch.so.1", "/opt/ml/models/abc", "/root/.cache",
                           "Exception raised from operator() at a.h:1", "loader/torch/torch_loader.cpp:12",
                           "frame #3: c10::Error", "libtorch_cpu.so", "at 0x7ffe12ab", "open /proc/self/maps"}) {
    INFO(text);
    CHECK(leaked("{\"error\":\"" + std::string(text) + "\"}", "POST /v2/models/m/infer\n{}"));
  }
}

TEST_CASE("an error in plain words is none, and neither is what the client itself said", "[leak]") {
  for (const char* text : {"no such model", "the data of 'x' has 0x elements",
                           "m.yaml:1: pinned: must be true or false", "0x12", "a.sorted", "0xzz000000"}) {
    INFO(text);
    CHECK_FALSE(leaked(text, ""));
  }
  CHECK_FALSE(leaked("'/tmp/x/m' cannot be the name of a model", "GET /models/%2Ftmp%2Fx%2Fm"));
  CHECK_FALSE(leaked("'/opt/ml/a' leads outside", "{\"url\":\"/opt/ml/a\"}"));
  CHECK(leaked("'/tmp/x/m' in /tmp/other", "GET /models/%2Ftmp%2Fx%2Fm"));
  CHECK(leaked("0xdeadbeef", "0xdeadbee"));
}
