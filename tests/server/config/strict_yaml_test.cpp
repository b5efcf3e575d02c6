// The strict reader by itself: trees, lines and what no settings file may hold.
#include "loader/repository/settings/strict_yaml.hpp"

#include "tests/support/catch.hpp"

using namespace mme::loader;
using Kind = YamlNode::Kind;

namespace {

/// "LINE key: what" of the first problem.
std::string first_problem(std::string_view text) {
  const auto document = read_strict_yaml(text);
  if (document.problems.empty()) return "";
  const auto& problem = document.problems.front();
  return std::to_string(problem.line) + " " + problem.key + ": " + problem.what;
}

}  // namespace

TEST_CASE("a file becomes a tree with the line of each key and value", "[yaml]") {
  const auto document = read_strict_yaml("# prose\na: 1\nb:\n  c: 'two'\n  d: [x, y]\n  e:\nf: |\n  text\n");
  REQUIRE(document.problems.empty());
  REQUIRE(document.root.kind == Kind::map);
  const auto* a = document.root.find("a");
  REQUIRE(a != nullptr);
  CHECK(a->text == "1");
  CHECK(a->line == 2);
  CHECK_FALSE(a->quoted);
  const auto* b = document.root.find("b");
  REQUIRE(b != nullptr);
  CHECK(b->find("c")->quoted);
  CHECK(b->find("c")->line == 4);
  REQUIRE(b->find("d")->items.size() == 2);
  CHECK(b->find("d")->items[1].text == "y");
  CHECK(b->find("e")->kind == Kind::null);
  CHECK(b->find("e")->line == 6);
  CHECK(document.root.find("f")->quoted);
  CHECK(document.root.find("missing") == nullptr);
}

TEST_CASE("files without content are empty, not broken", "[yaml]") {
  for (const char* text : {"", "\n\n", "# only prose\n", "---\n", "---\n# prose\n...\n", "\xef\xbb\xbf", "~\n"}) {
    INFO(text);
    const auto document = read_strict_yaml(text);
    CHECK(document.problems.empty());
    CHECK(document.root.kind == Kind::null);
  }
}

TEST_CASE("windows line ends and a mark at the start are no part of the values", "[yaml]") {
  const auto document = read_strict_yaml(
      "\xef\xbb\xbf"
      "a: 1\r\nb: 2\r\n");
  REQUIRE(document.problems.empty());
  CHECK(document.root.find("a")->text == "1");
  CHECK(document.root.find("b")->line == 2);
}

TEST_CASE("numbers keep the digits that were written", "[yaml]") {
  CHECK(read_strict_yaml("a: 010\n").root.find("a")->text == "010");
  CHECK(read_strict_yaml("a: 1e3\n").root.find("a")->text == "1e3");
}

TEST_CASE("every construct that hides or repeats something is refused with its line", "[yaml]") {
  CHECK(first_problem("a: 1\nb: 2\na: 3\n") == "3 a: repeated key, first given in line 1");
  CHECK(first_problem("a:\n  b: 1\n  b: 2\n") == "3 a.b: repeated key, first given in line 2");
  CHECK(first_problem("a: {b: 1, b: 2}\n") == "1 a.b: repeated key, first given in line 1");
  CHECK(first_problem("a: 1\n'a': 2\n") == "2 a: repeated key, first given in line 1");
  CHECK(first_problem("a: &x 1\n") == "1 a: anchors (&name) are not allowed");
  CHECK(first_problem("a: &x [1]\n") == "1 a: anchors (&name) are not allowed");
  CHECK(first_problem("b: 0\na: &x 1\nc: *x\n") == "2 a: anchors (&name) are not allowed");
  CHECK(read_strict_yaml("a: &x 1\nc: *x\n").problems.at(1).what == "aliases (*name) are not allowed");
  CHECK(first_problem("a: !!str 1\n") == "1 a: tags (!name) are not allowed");
  CHECK(first_problem("a: ! 1\n") == "1 a: tags (!name) are not allowed");
  CHECK(first_problem("a: !thing [1]\n") == "1 a: tags (!name) are not allowed");
  CHECK(first_problem("a: !thing {b: 1}\n") == "1 a: tags (!name) are not allowed");
  CHECK(first_problem("!!map\na: 1\n") == "1 : tags (!name) are not allowed");
  CHECK(first_problem("? [a, b]\n: 1\n") == "1 : a key must be plain text");
  CHECK(first_problem("? {a: b}\n: 1\n") == "1 : a key must be plain text");
  CHECK(first_problem("~: 1\n") == "1 : a key must be plain text");
  CHECK(first_problem("a: 1\n---\nb: 2\n") == "2 : a second document begins here, there must be one only");
  CHECK(first_problem("%YAML 1.2\n---\na: 1\n") == "1 : directives (%) are not allowed");
}

TEST_CASE("tabs and control characters are refused outside comments", "[yaml]") {
  CHECK(first_problem("a:\n\tb: 1\n") == "2 : a tab; indent and separate with spaces");
  CHECK(first_problem("a:\t1\n") == "1 : a tab; indent and separate with spaces");
  CHECK(first_problem("a: 1 #\ta comment\n").empty());
  CHECK(first_problem(std::string_view("a: \0\n", 5)) == "1 : a control character, this is no text file");
  CHECK(first_problem("a: \x1b[31m\n") == "1 : a control character, this is no text file");
  CHECK(first_problem(std::string_view("\xff\xfe"
                                       "a\0:\0",
                                       6)) == "1 : a control character, this is no text file");
}

TEST_CASE("what is no YAML is refused with its line", "[yaml]") {
  for (const char* text : {"a: [1, 2\n", "a: {b: 1\n", "a: 'open\n", "a: \"\\q\"\n", "a: 1\n b: 2\n", "a: b: c\n",
                           "- 1\na: 2\n", "a: ]\n", "*unknown\n", "a: @b\n", "a: `b`\n"}) {
    INFO(text);
    CHECK_FALSE(first_problem(text).empty());
  }
  CHECK(first_problem("x: 1\na: [1, 2\n").substr(0, 12) == "3 : not YAML");
}

TEST_CASE("a quote that is never closed is refused, not read to the end of the file", "[yaml]") {
  CHECK(first_problem("a: 'open\nb: 2\n") == "1 a: the quote is never closed");
  CHECK(first_problem("caf\xc3\xa9: 1\r\na: 'it''s open\r\n") == "2 a: the quote is never closed");
  CHECK_FALSE(first_problem("a: \"open\nb: 2\n").empty());
  CHECK_FALSE(first_problem("a: \"open \\\"\nb: 2\n").empty());
  for (const char* text :
       {"caf\xc3\xa9: 1\r\na: 'it''s'\r\n", "a: 'it''s'", "a: \"b\\\"\"", "a: ''\n", "a: \"\"", "a: ''''"}) {
    INFO(text);
    CHECK(first_problem(text).empty());
  }
}

TEST_CASE("files that are too large or too deep are refused without reading on", "[yaml]") {
  CHECK(first_problem(std::string((1U << 20) + 1, '#')) == "0 : larger than 1 MiB");
  CHECK(first_problem("a: " + std::string(40, '[') + std::string(40, ']')) == "1 a: nested too deeply");
  CHECK_FALSE(first_problem(std::string(500'000, '[')).empty());
  CHECK_FALSE(first_problem(std::string(500'000, '{')).empty());
  std::string deep;
  for (int i = 0; i < 700; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  CHECK_FALSE(first_problem(deep).empty());
}

TEST_CASE("a file of very many keys is read in a time that grows with it", "[yaml]") {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "k" + std::to_string(i) + ":\n";
  const auto document = read_strict_yaml(text);  // comparing each key with each other one would take a minute
  CHECK(document.problems.empty());
  CHECK(document.root.entries.size() == 100'000);
}

TEST_CASE("all problems are told, up to a hundred", "[yaml]") {
  std::string text = "k: 0\n";
  for (int i = 0; i < 500; ++i) text += "k: 1\n";
  CHECK(read_strict_yaml(text).problems.size() == 100);
  CHECK(read_strict_yaml("a: &x 1\nb: !t 2\na: 3\n").problems.size() == 3);
  // A hundred of them within a list that turns out to be a key, given up before its end.
  std::string tagged = "{[";
  for (int i = 0; i < 200; ++i) tagged += "!t a, ";
  CHECK(read_strict_yaml(tagged).problems.size() == 100);
}
