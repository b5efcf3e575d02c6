// Numbers that read back to the same bits, laid out as Python lays them out; strings that are always valid JSON.
#include "server/codecs/json_writer.hpp"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "server/codecs/json_reader.hpp"
#include "tests/support/catch.hpp"

using namespace mme::server;

namespace {

template <class T>
std::string number(T value) {
  std::string out;
  append_number(out, value);
  return out;
}

std::string string(std::string_view text) {
  std::string out;
  append_string(out, text);
  return out;
}

}  // namespace

TEST_CASE("reals are laid out as Python's repr lays them out", "[json_writer]") {
  CHECK(number(0.0) == "0.0");
  CHECK(number(-0.0) == "-0.0");
  CHECK(number(1.0) == "1.0");
  CHECK(number(0.1) == "0.1");
  CHECK(number(100.0) == "100.0");
  CHECK(number(123456.789) == "123456.789");
  CHECK(number(1e15) == "1000000000000000.0");
  CHECK(number(9999999999999998.0) == "9999999999999998.0");
  CHECK(number(1e16) == "1e+16");
  CHECK(number(1.5e300) == "1.5e+300");
  CHECK(number(0.0001) == "0.0001");
  CHECK(number(0.00001) == "1e-05");
  CHECK(number(-1.25e-7) == "-1.25e-07");
  CHECK(number(5e-324) == "5e-324");
  CHECK(number(static_cast<double>(0.1F)) == "0.10000000149011612");
  CHECK(number(0.1F) == "0.1");
  CHECK(number(16777216.0F) == "16777216.0");
  CHECK(number(3.4028235e38F) == "3.4028235e+38");
}

TEST_CASE("random reals read back to the same bits", "[json_writer]") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const auto wide = std::bit_cast<double>(random());
    if (std::isfinite(wide)) REQUIRE(std::strtod(number(wide).c_str(), nullptr) == wide);
    const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(narrow)) REQUIRE(std::strtof(number(narrow).c_str(), nullptr) == narrow);
  }
}

TEST_CASE("integers are written to the last digit", "[json_writer]") {
  CHECK(number(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  CHECK(number(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615");
}

TEST_CASE("strings are escaped and always valid", "[json_writer]") {
  CHECK(string("plain") == R"("plain")");
  CHECK(string("a\"b\\c\n\r\t\b\f") == R"("a\"b\\c\n\r\t\b\f")");
  CHECK(string(std::string_view("\0\x1f\x7f", 3)) == R"("\u0000\u001f\u007f")");
  CHECK(string("h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") == "\"h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  const std::string lost = "\xEF\xBF\xBD";
  CHECK(string("a\xff"
               "b") == "\"a" + lost + "b\"");
  CHECK(string("\xc3") == "\"" + lost + "\"");
  CHECK(string("\xe2\x82") == "\"" + lost + lost + "\"");
  CHECK(string("\xed\xa0\x80") == "\"" + lost + lost + lost + "\"");
  CHECK(string("\xc0\x80") == "\"" + lost + lost + "\"");
}

TEST_CASE("any bytes give a string that our reader takes, and UTF-8 comes back unchanged", "[json_writer]") {
  std::mt19937 random(11);
  for (int i = 0; i < 2'000; ++i) {
    std::string bytes(random() % 12, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const auto document = JsonDocument::parse(string(bytes));
    REQUIRE(document.has_value());
    if (is_utf8(bytes)) REQUIRE(document->root().get_string().value() == bytes);
  }
}

TEST_CASE("keys get their comma by what stands before them", "[json_writer]") {
  std::string out = "{";
  append_key(out, "a");
  out += "1";
  append_key(out, "b");
  CHECK(out == R"({"a":1,"b":)");
}
