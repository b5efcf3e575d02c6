// What the demo prints.
#include "scripts/demo/demo_table.hpp"

#include <sstream>

#include "tests/support/catch.hpp"

using mme::demo::human_bytes;
using mme::demo::ModelRow;

TEST_CASE("sizes are written for people") {
  CHECK(human_bytes(2284) == "2.3 KB");
  CHECK(human_bytes(99842291) == "99.8 MB");
}

TEST_CASE("every line of the table is as long as the others, and the last one sums up") {
  ModelRow first;
  first.about = "MLP";
  first.file_bytes = 1'000'000;
  first.load.name = "score-lead";
  first.load.add(mme::server::Outcome::ok, "", std::chrono::microseconds(1500));
  first.hits = 3;
  ModelRow second = first;
  second.load.name = "never-called";
  second.load = {};
  second.hits = 4;
  std::ostringstream out;
  mme::demo::print_table(out, {first, second});
  std::istringstream lines(out.str());
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  REQUIRE(all.size() == 5);
  all.pop_back();  // a remark
  for (const std::string& line : all) CHECK(line.size() == all[0].size());
  CHECK(all[1].find("1.5") != std::string::npos);
  CHECK(all[3].find("2.0 MB") != std::string::npos);
  CHECK(all[3].find(" 7 ") != std::string::npos);
}

TEST_CASE("failures are told by name and number") {
  ModelRow row;
  row.load.name = "m";
  row.load.add(mme::server::Outcome::refused, "507 all_in_use", {});
  row.load.add(mme::server::Outcome::refused, "507 all_in_use", {});
  std::ostringstream out;
  mme::demo::print_failures(out, {row});
  CHECK(out.str().find("507 all_in_use: 2 times") != std::string::npos);
}
