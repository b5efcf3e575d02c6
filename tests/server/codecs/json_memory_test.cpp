// What parsing takes, against what the kernel says that it took.
#include <fstream>

#include "server/codecs/json_reader.hpp"
#include "server/codecs/tensor_json.hpp"
#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace mme::loader;

namespace {

/// From /proc/self/status, in bytes.
std::size_t from_status(const std::string& field) {
  std::ifstream file("/proc/self/status");
  std::string word;
  std::size_t kibibytes = 0;
  while (file >> word) {
    if (word == field + ":") file >> kibibytes;
  }
  return kibibytes * 1024;
}

/// How much more memory the process had at once while `work` ran.
template <class Work>
std::size_t growth(Work work) {
  std::ofstream("/proc/self/clear_refs") << "5";  // forgets the highest mark
  const std::size_t before = from_status("VmRSS");
  work();
  const std::size_t peak = from_status("VmHWM");
  return peak > before ? peak - before : 0;
}

std::string repeat(std::string_view item, std::size_t bytes) {
  std::string text = "[";
  while (text.size() < bytes) text.append(item).append(",");
  text.back() = ']';
  return text;
}

void parse_into_tensor(const std::string& text, std::optional<DataType> type) {
  const auto document = JsonDocument::parse(text);
  REQUIRE(document.has_value());
  CHECK(read_shaped(document->root(), "it", type).has_value());
}

}  // namespace

TEST_CASE("Parsing takes no more memory than is said before", "[json]") {
  constexpr std::size_t kSize = 8'000'000;
  struct Row {
    std::string_view item;
    std::optional<DataType> type;
    double most;  // of the text's size
  };
  const Row rows[] = {{"1", DataType::fp64, 21},
                      {"0.123456", std::nullopt, 6.5},
                      {"\"\"", std::nullopt, 34},
                      {"\"some text\"", {}, 12},
                      {"true", DataType::boolean, 9},
                      {"[1,2]", {}, 21.1},
                      {"\"a longer text than a string keeps within itself\"", {}, 6},
                      {"12345678901234567890", DataType::fp64, 7}};
  for (const Row& row : rows) {
    const std::string text = repeat(row.item, kSize);
    const std::size_t said = json_working_bytes(text);
    CHECK(static_cast<double>(said) <= row.most * kSize);
#ifndef MME_SANITIZED
    const std::size_t took = growth([&] { parse_into_tensor(text, row.type); });
    INFO(row.item << ": took " << took << ", said " << said);
    CHECK(took <= said + (1 << 20));
    CHECK(took >= said / 4);
#endif
  }
}
