// Choice of targets by weight.
#include "server/loadgen/target_picker.hpp"

#include "tests/support/catch.hpp"

using mme::server::TargetPicker;
using mme::server::zipf_weights;

namespace {

std::vector<int> draw(TargetPicker picker, std::size_t targets, int times) {
  std::vector<int> counts(targets);
  for (int i = 0; i < times; ++i) ++counts.at(picker.next());
  return counts;
}

}  // namespace

TEST_CASE("the k-th zipf weight is the k-th part of the first") {
  CHECK(zipf_weights(4, 1) == std::vector<double>{1, 0.5, 1.0 / 3, 0.25});
  CHECK(zipf_weights(3, 0) == std::vector<double>{1, 1, 1});
}

TEST_CASE("targets are chosen in proportion to their weight") {
  const std::vector<int> counts = draw(TargetPicker({1, 2, 1}, 5), 3, 40000);
  CHECK(counts[0] > 9500);
  CHECK(counts[0] < 10500);
  CHECK(counts[1] > 19500);
  CHECK(counts[1] < 20500);
}

TEST_CASE("a target without weight is never chosen") {
  const std::vector<int> counts = draw(TargetPicker({0, 1, 0}, 5), 3, 1000);
  CHECK(counts == std::vector<int>{0, 1000, 0});
}

TEST_CASE("the same seed gives the same choices, another seed others") {
  const std::vector<double> weights = zipf_weights(20, 1);
  TargetPicker first(weights, 9);
  TargetPicker second(weights, 9);
  TargetPicker other(weights, 10);
  int differences = 0;
  for (int i = 0; i < 100; ++i) {
    const std::size_t choice = first.next();
    CHECK(choice == second.next());
    if (choice != other.next()) ++differences;
  }
  CHECK(differences > 10);
}
