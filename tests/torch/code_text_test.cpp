// When two archives have the same code, whoever wrote it.
#include "loader/torch/code_text.hpp"

#include "tests/support/catch.hpp"

namespace mme::test {

TEST_CASE("the order of constants in a class does not tell its code apart, all else does") {
  const std::string head = "class M(Module):\n  w : Tensor\n";
  const std::string a = "  alpha : Final[int] = 1\n";
  const std::string b = "  beta : Final[float] = 2.5\n";
  const std::string body = "  def forward(self, x: Tensor) -> Tensor:\n    return x\n";
  using loader::with_sorted_finals;
  CHECK(with_sorted_finals(head + a + b + body) == with_sorted_finals(head + b + a + body));
  CHECK(with_sorted_finals(head + a + b + body) == head + a + b + body);
  CHECK(with_sorted_finals(head + a + body) != with_sorted_finals(head + b + body));
  CHECK(with_sorted_finals(a + head + b) !=
        with_sorted_finals(b + head + a));  // of two classes: not next to each other
  CHECK(with_sorted_finals("").empty());
  CHECK(with_sorted_finals("no end of line") == "no end of line");
}

TEST_CASE("parts of code cannot run into each other") {
  loader::CodeText one;
  one.add("ab", "c");
  one.add("d", "");
  loader::CodeText other;
  other.add("a", "bc");
  other.add("", "d");
  CHECK(one.text() != other.text());
}

}  // namespace mme::test
