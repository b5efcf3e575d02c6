// Percent-decoding of segments and queries.
#include "server/http/uri.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::server;

TEST_CASE("segments are decoded once") {
  const std::vector<std::pair<std::string, std::string>> table{
      {"", ""},         {"plain", "plain"},       {"a%20b", "a b"},       {"a+b", "a+b"},   {"a%2Fb", "a/b"},
      {"a%2fb", "a/b"}, {"%252e%252e", "%2e%2e"}, {"%c3%A4", "\xc3\xa4"}, {"%2e%2E", ".."}, {"100%25", "100%"},
      {"~%7E", "~~"}};
  for (const auto& [encoded, decoded] : table) {
    INFO(encoded);
    const auto result = decode_segment(encoded);
    REQUIRE(result.has_value());
    CHECK(*result == decoded);
  }
}

TEST_CASE("segments that cannot be decoded safely are refused") {
  for (const char* bad : {"%", "%4", "%zz", "%4g", "%-1", "% 1", "a%0", "%00", "%0a", "%0D", "%1f", "%7f", "%80", "%ff",
                          "%c3", "%c0%af", "%ed%a0%80", "%f4%90%80%80"}) {
    INFO(bad);
    const auto result = decode_segment(bad);
    REQUIRE(result.has_error());
    CHECK(result.error().code == ErrorCode::invalid_request);
  }
}

TEST_CASE("queries become pairs in order") {
  const Headers all{{"a", "1"}, {"b", "x y"}, {"a", "2&3"}, {"empty", ""}, {"bare", ""}, {"", "v"}, {"e", "f=g"}};
  CHECK(*decode_query("a=1&b=x+y&a=2%263&empty=&bare&=v&e=f=g") == all);
  CHECK(decode_query("")->empty());
  CHECK(decode_query("&&")->empty());
  CHECK(decode_query("a=%").has_error());
  CHECK(decode_query("%00=a").has_error());
  CHECK(decode_query("a=1&b=%0a").has_error());
}

TEST_CASE("paths are split and not normalised") {
  using List = std::vector<std::string_view>;
  CHECK(split_path("/") == List{""});
  CHECK(split_path("/a") == List{"a"});
  CHECK(split_path("/a/") == List{"a", ""});
  CHECK(split_path("//a") == List{"", "a"});
  CHECK(split_path("/a/./../b%2fc") == List{"a", ".", "..", "b%2fc"});
}

TEST_CASE("a parameter is the first of its name, compared exactly") {
  Request request;
  request.query = *decode_query("Limit=1&limit=2&limit=3");
  CHECK(request.parameter("limit") == "2");
  CHECK_FALSE(request.parameter("LIMIT"));
}
