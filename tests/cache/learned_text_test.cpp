// The learned table as text: what is written is read back, and nothing else is read at all.
#include "cache/learned_text.hpp"

#include <boost/crc.hpp>
#include <cstdio>
#include <random>

#include "tests/support/catch.hpp"

using namespace mme;
using namespace mme::cache;

namespace {

std::string digest(unsigned number) {
  char text[33];
  std::snprintf(text, sizeof text, "%032x", number);
  return text;
}

LearnedTable some_table() {
  LearnedTable table;
  table.artifacts.push_back({.digest = digest(1),
                             .own_bytes = 10,
                             .segment_bytes = 20,
                             .alone_bytes = 30,
                             .joined_bytes = 35,
                             .kept_bytes = 40,
                             .peaks = {}});
  table.artifacts.back().peaks.learn(0, 0);
  table.artifacts.back().peaks.learn(1'000, 7);
  table.artifacts.back().peaks.learn(SIZE_MAX, std::size_t{1} << 50);
  table.artifacts.push_back({.digest = digest(2),
                             .own_bytes = 0,
                             .segment_bytes = 1,
                             .alone_bytes = 0,
                             .joined_bytes = 0,
                             .kept_bytes = 0,
                             .peaks = {}});
  table.names.push_back({"team/m-1.0_x", {{digest(1), 30}, {digest(2), 1}}});
  table.names.push_back({"n", {{digest(7), 0}}});
  return table;
}

/// A text with a right first line and a right end, whatever stands between.
std::string framed(const std::string& body) {
  const std::string text = "mme learned 1\n" + body;
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  char end[16];
  std::snprintf(end, sizeof end, "end %08x\n", static_cast<unsigned>(crc.checksum()));
  return text + end;
}

const std::string d1 = digest(1);

}  // namespace

TEST_CASE("Learned text: what was written is read back") {
  const std::string text = to_text(some_table());
  CHECK(text.starts_with("mme learned 1\na " + d1 + " 10 20 30 35 40 0:0 10:7 64:1125899906842624\n"));
  CHECK(text == framed(text.substr(14, text.size() - 14 - 13)));
  const auto table = learned_from_text(text);
  REQUIRE(table);
  REQUIRE(table->artifacts.size() == 2);
  CHECK(table->artifacts[0].peaks.peak(1'000) == std::size_t{7});
  CHECK(table->artifacts[0].peaks.peak(1) == std::nullopt);
  REQUIRE(table->names.size() == 2);
  CHECK(table->names[0].sizes == some_table().names[0].sizes);
  CHECK(to_text(*table) == text);
  CHECK(learned_from_text(to_text({})));
}

TEST_CASE("Learned text: cut anywhere or with a byte changed, it is nothing") {
  const std::string text = to_text(some_table());
  for (std::size_t length = 0; length < text.size(); ++length) {
    INFO(length);
    CHECK_FALSE(learned_from_text(text.substr(0, length)));
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    INFO(at);
    CHECK_FALSE(learned_from_text(changed));
  }
  CHECK_FALSE(learned_from_text(text + "\n"));
  CHECK_FALSE(learned_from_text(text + text));
  CHECK_FALSE(learned_from_text(std::string(longest_learned_text + 1, 'x')));
}

TEST_CASE("Learned text: lines that nobody writes make the whole of it nothing") {
  CHECK(learned_from_text(framed("")));
  CHECK(learned_from_text(framed("a " + d1 + " 1 2 3 4 5\n")));
  CHECK(learned_from_text(framed("n m " + d1 + ":5\n")));
  const std::string good = "a " + digest(9) + " 1 2 3 4 5\n";
  const std::string table[] = {
      "\n",
      "a\n",
      "a \n",
      "x " + d1 + " 1 2 3 4 5\n",
      "a " + d1 + "\n",
      "a " + d1 + " 1 2 3 4\n",
      "a " + d1 + " 1 2 3 4 5 \n",
      "a " + d1 + "  1 2 3 4 5\n",
      "a " + d1 + " 1 2 3 4 5\r\n",
      "a " + d1 + " 1 2 3 4 -5\n",
      "a " + d1 + " 1 2 3 4 +5\n",
      "a " + d1 + " 1 2 3 4 05\n",
      "a " + d1 + " 1 2 3 4 5x\n",
      "a " + d1 + " 1 2 3 4 1125899906842625\n",            // more than a petabyte
      "a " + d1 + " 1 2 3 4 99999999999999999999999999\n",  // more than 64 bits
      "a " + d1 + " 0 0 3 4 5\n",                           // never measured
      "a " + d1 + " 1 2 3 4 5 5\n",
      "a " + d1 + " 1 2 3 4 5 5:\n",
      "a " + d1 + " 1 2 3 4 5 :5\n",
      "a " + d1 + " 1 2 3 4 5 65:1\n",
      "a " + d1 + " 1 2 3 4 5 6:1 6:2\n",
      "a " + d1 + " 1 2 3 4 5 6:1 5:2\n",
      "a " + d1 + " 1 2 3 4 5\na " + d1 + " 1 2 3 4 5\n",
      "a " + d1.substr(1) + " 1 2 3 4 5\n",
      "a " + d1.substr(1) + "G 1 2 3 4 5\n",
      "a " + d1.substr(1) + "A 1 2 3 4 5\n",
      "n m\n",
      "n m \n",
      "n  " + d1 + ":5\n",
      "n m " + d1 + "\n",
      "n m " + d1 + ":\n",
      "n m " + d1 + ":5 " + d1 + ":6\n",
      "n \x01 " + d1 + ":5\n",
      "n " + std::string(129, 'm') + " " + d1 + ":5\n",
      "n m " + d1 + ":5\nn m " + d1 + ":5\n",
      "n m 1:1 2:1 3:1\n",
  };
  for (const std::string& line : table) {
    INFO(line);
    CHECK_FALSE(learned_from_text(framed(line)));
    CHECK_FALSE(learned_from_text(framed(good + line)));
    CHECK_FALSE(learned_from_text(framed(line + good)));
  }
  std::string nine = "n m";
  for (unsigned i = 0; i < 9; ++i) nine += " " + digest(i) + ":1";
  CHECK_FALSE(learned_from_text(framed(nine + "\n")));
  CHECK_FALSE(learned_from_text(framed("a " + d1 + " 1 2 3 4 5")));
  std::string many;
  for (unsigned i = 0; i <= LearnedFacts::capacity; ++i) many += "a " + digest(i) + " 1 2 3 4 5\n";
  CHECK_FALSE(learned_from_text(framed(many)));
}

TEST_CASE("Learned text: any bytes inside a right frame are read or refused, and what is read is written the same") {
  std::mt19937 random(11);
  const auto below = [&](std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); };
  const std::string whole = to_text(some_table());
  const std::string body = whole.substr(14, whole.size() - 14 - 13);
  const std::string bytes = std::string("an 0159:af\n") + std::string(1, '\0') + "\xff";
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string changed = body;
    for (std::size_t change = 0; change <= below(3); ++change) {
      const std::size_t at = below(changed.size());
      if (below(2) == 0) {
        changed[at] = bytes[below(bytes.size())];
      } else {
        changed.erase(at, 1 + below(40));
        if (changed.empty()) changed = "a";
      }
    }
    if (const auto table = learned_from_text(framed(changed))) {
      ++read;
      REQUIRE(to_text(*table) == framed(changed));
    }
  }
  CHECK(read > 0);
}

TEST_CASE("Learned text: what cannot be written is left out, and too much leaves its oldest part out") {
  LearnedTable odd = some_table();
  odd.artifacts[0].digest = "no digest";
  odd.artifacts[1].own_bytes = (std::size_t{1} << 50) + 1;
  odd.names[0].name = "two words";
  const auto rest = learned_from_text(to_text(odd));
  REQUIRE(rest);
  CHECK(rest->artifacts.empty());
  CHECK(rest->names.size() == 1);

  LearnedTable full;
  for (unsigned i = 0; i < LearnedFacts::capacity; ++i) {
    ArtifactFacts facts{.digest = digest(i),
                        .own_bytes = 1,
                        .segment_bytes = 0,
                        .alone_bytes = 0,
                        .joined_bytes = 0,
                        .kept_bytes = 0,
                        .peaks = {}};
    for (std::size_t bucket = 0; bucket < LearnedPeaks::buckets; ++bucket) {
      facts.peaks.raise(bucket, std::size_t{1} << 50);
    }
    full.artifacts.push_back(std::move(facts));
    full.names.push_back({"m" + std::to_string(i), {{digest(i), 1}}});
  }
  const std::string text = to_text(full);
  CHECK(text.size() <= longest_learned_text);
  const auto read = learned_from_text(text);
  REQUIRE(read);
  CHECK(read->artifacts.size() > 1'000);
  CHECK(read->artifacts.size() < LearnedFacts::capacity);
  CHECK(read->artifacts.front().digest == digest(0));
  CHECK(read->names.size() == LearnedFacts::capacity);
}
