// Content-Type and Accept as clients really send them.
#include "server/codecs/media_type.hpp"

#include "tests/support/catch.hpp"

using namespace mme::server;

TEST_CASE("parameters and case of a content type do not matter", "[media_type]") {
  CHECK(without_parameters("application/json; charset=utf-8") == "application/json");
  CHECK(without_parameters(" application/json ") == "application/json");
  CHECK(without_parameters("") == "");
  CHECK(same_type("Application/JSON", "application/json"));
  CHECK_FALSE(same_type("application/jsonl", "application/json"));
}

TEST_CASE("the most specific range of Accept decides", "[media_type]") {
  struct Row {
    const char* accept;
    int quality;
  };
  const auto row = GENERATE(values<Row>({{"", 1000},
                                         {" ", 1000},
                                         {"*/*", 1000},
                                         {"application/json", 1000},
                                         {"APPLICATION/json;charset=utf-8", 1000},
                                         {"application/*", 1000},
                                         {"text/csv, application/json", 1000},
                                         {"text/csv;q=1, application/json;q=0.25", 250},
                                         {"text/csv, */*;q=0.1", 100},
                                         {"application/json;q=0", 0},
                                         {"application/json;q=0, */*", 0},
                                         {"*/*, application/json;q=0", 0},
                                         {"*/*;q=0, application/json", 1000},
                                         {"application/json; q=0.000", 0},
                                         {"application/json;q=bad", 1000},
                                         {"text/csv", 0},
                                         {"text/*", 0},
                                         {"app/*", 0},
                                         {",,,", 0}}));
  INFO(row.accept);
  CHECK(accept_quality(row.accept, "application/json") == row.quality);
}
