// What the reader of JSON takes and what it refuses.
#include "server/codecs/json_reader.hpp"

#include "tests/support/catch.hpp"

using namespace mme::server;
using mme::loader::ErrorCode;

namespace {

std::string error_of(std::string_view text) {
  const auto document = JsonDocument::parse(text);
  return document.has_error() ? document.error().message : "none";
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + "1" + std::string(depth, ']');
}

}  // namespace

TEST_CASE("what is not one whole JSON value is refused", "[json]") {
  const auto text =
      GENERATE(as<std::string>{}, "", " ", "{", "[1,]", "[1 2]", "{\"a\":1,}", "{a:1}", "{'a':1}", "1 1", "{} x",
               "[1]]", "// c\n1", "[1] // c", "/**/1", "NaN", "[NaN]", "[Infinity]", "[-Infinity]", "[nan]", "[+1]",
               "[01]", "[1.]", "[.5]", "[1e]", "[0x10]", "[1e400]", "[-1e400]", "tru", "\"a", "\"\\x\"", "\"\\ud800\"",
               "\"\n\"", "[\"\xff\"]", "[\"\xc3\"]", "[\"\xed\xa0\x80\"]", "\xef\xbb\xbf[1]", std::string("[1\0]", 4));
  INFO(text);
  const auto document = JsonDocument::parse(text);
  REQUIRE(document.has_error());
  CHECK(document.error().code == ErrorCode::invalid_request);
  CHECK(document.error().message.find('\n') == std::string::npos);
}

TEST_CASE("32 levels are read, 33 are not, wherever they stand", "[json]") {
  CHECK(error_of(nested(32)) == "none");
  CHECK(error_of(nested(33)) == "the JSON nests too deeply");
  CHECK(error_of("{\"ignored\":" + nested(32) + "}") == "the JSON nests too deeply");
  CHECK(error_of("{\"x\":" + nested(1'000'000) + "}") == "the JSON nests too deeply");
}

TEST_CASE("integers beyond 64 bits read as reals", "[json]") {
  const auto document = JsonDocument::parse(
      R"([100000000000000000000, -9223372036854775809, 18446744073709551615, "99999999999999999999\"1", 1.00000000000000000000001])");
  REQUIRE(document.has_value());
  std::vector<JsonValue> values;
  const simdjson::dom::array array = document->root().get_array().value();
  for (const JsonValue value : array) values.push_back(value);
  CHECK(values[0].get_double().value() == 1e20);
  CHECK(values[1].is_double());
  CHECK(values[2].get_uint64().value() == 18446744073709551615ULL);
  CHECK(values[3].get_string().value() == "99999999999999999999\"1");
  CHECK(error_of("[100000000000000000000, 1e400]") == "the JSON has a number that is malformed or out of range");
}

TEST_CASE("an object gives its fields and refuses a key given twice", "[json]") {
  const auto document = JsonDocument::parse(R"({"b":"x","a":true,"c":1})");
  const auto object = JsonObject::read(document->root(), "the request");
  REQUIRE(object.has_value());
  CHECK(object->string("b").value() == "x");
  CHECK(object->optional_boolean("a").value() == true);
  CHECK(object->optional_boolean("none").value() == std::nullopt);
  CHECK(object->optional_string("none").value() == std::nullopt);
  CHECK(object->string("none").error().message == "the request has no field 'none'");
  CHECK(object->string("c").error().message == "'c' of the request must be a string, not a number");
  CHECK(object->optional_boolean("b").error().message == "'b' of the request must be true or false, not a string");

  const auto twice = JsonDocument::parse(R"({"shape":[1],"data":[],"sh\u0061pe":[2]})");
  const auto refused = JsonObject::read(twice->root(), "input 'x'");
  REQUIRE(refused.has_error());
  CHECK(refused.error().message == "input 'x' has the field 'shape' twice");

  const auto list = JsonDocument::parse("[]");
  CHECK(JsonObject::read(list->root(), "the request").error().message ==
        "the request must be a JSON object, not an array");
}

TEST_CASE("a client's text in a message is short, printable and on one line", "[json]") {
  CHECK(shown("x") == "'x'");
  CHECK(shown("a\nb\x7f\xc3\xa9") == "\'a\?b\?\?\?\'");
  CHECK(shown(std::string(10'000, 'y')).size() == 64 + 5);
}
