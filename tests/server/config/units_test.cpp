// Numbers, sizes and durations as an operator writes them.
#include "server/config/duration.hpp"
#include "server/config/number.hpp"
#include "server/config/size.hpp"
#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace std::chrono_literals;

TEST_CASE("sizes are bytes, thousands or 1024s", "[config]") {
  const std::pair<const char*, std::uint64_t> table[] = {
      {"1", 1},
      {"67108864", 67'108'864},
      {"1KB", 1'000},
      {"2MB", 2'000'000},
      {"3GB", 3'000'000'000},
      {"1KiB", 1'024},
      {"64MiB", 67'108'864},
      {"4GiB", 4'294'967'296},
      {"9223372036854775807", 9'223'372'036'854'775'807},
      {"8589934591GiB", 9'223'372'035'781'033'984},
  };
  for (const auto& [text, bytes] : table) {
    INFO(text);
    const auto size = parse_size(text);
    REQUIRE(size.has_value());
    CHECK(*size == bytes);
    CHECK(*parse_size(size_text(bytes)) == bytes);
  }
}

TEST_CASE("what is no size is refused", "[config]") {
  for (const char* text : {"",
                           "0",
                           "0MiB",
                           "00",
                           "010",
                           "01MiB",
                           "-1",
                           "+1",
                           "5XB",
                           "abc",
                           "1e3",
                           "1.5GiB",
                           "64 MiB",
                           " 64MiB",
                           "64MiB ",
                           "64mib",
                           "64M",
                           "64Mi",
                           "64B",
                           "0x10",
                           "1_000",
                           "1,000",
                           "MiB",
                           "auto",
                           "9223372036854775808",
                           "18446744073709551616",
                           "8589934592GiB",
                           "9999999999999999999999KiB",
                           "\xd9\xa1",
                           "1\n"}) {
    INFO(text);
    CHECK(parse_size(text).has_error());
  }
  CHECK(parse_size("010").error().message == "a number must not begin with 0, it looks octal");
  CHECK(parse_size("5XB").error().message == "not a size: the unit must be KB, MB, GB, KiB, MiB or GiB, or none");
  CHECK(parse_size("0").error().message == "a size of 0 is not allowed");
}

TEST_CASE("sizes are shown in the largest unit that is exact", "[config]") {
  CHECK(size_text(67'108'864) == "64MiB");
  CHECK(size_text(1'500'000) == "1500KB");
  CHECK(size_text(1'073'741'825) == "1073741825");
  CHECK(size_text(1) == "1");
}

TEST_CASE("durations have a unit", "[config]") {
  const std::pair<const char*, std::chrono::microseconds> table[] = {
      {"0s", 0us},  {"0us", 0us}, {"250us", 250us}, {"1ms", 1ms},     {"1500ms", 1500ms},
      {"30s", 30s}, {"5m", 5min}, {"24h", 24h},     {"8760h", 8760h}, {"31536000000000us", 8760h}};
  for (const auto& [text, length] : table) {
    INFO(text);
    const auto duration = parse_duration(text);
    REQUIRE(duration.has_value());
    CHECK(*duration == length);
    CHECK(*parse_duration(duration_text(length)) == length);
  }
  CHECK(duration_text(90s) == "90s");
  CHECK(duration_text(300s) == "5m");
  CHECK(duration_text(0s) == "0s");
}

TEST_CASE("what is no duration is refused", "[config]") {
  for (const char* text : {"", "0", "30", "s", "-1s", "1.5s", "30 s", "30sec", "30S", "1d", "010s", "1e3ms", "8761h",
                           "31536000000001us", "99999999999999999999s", "18446744073709551615h", "inf", "off"}) {
    INFO(text);
    CHECK(parse_duration(text).has_error());
  }
  CHECK(parse_duration("30").error().message == "a duration needs a unit: us, ms, s, m or h");
}

TEST_CASE("numbers are plain digits", "[config]") {
  CHECK(*parse_number("0") == 0);
  CHECK(*parse_number("18446744073709551615") == 18'446'744'073'709'551'615U);
  for (const char* text :
       {"", "-1", "+1", "010", "00", "1.0", "1e3", "0x1f", "0o17", "1_0", " 1", "1 ", "one", "18446744073709551616"}) {
    INFO(text);
    CHECK(parse_number(text).has_error());
  }
}
