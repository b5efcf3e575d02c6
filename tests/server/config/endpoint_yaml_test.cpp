// The example settings file: every key is in it, and what it shows as defaults are the defaults.
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "server/config/settings_file.hpp"
#include "tests/support/catch.hpp"

using namespace mme::server;

namespace {

std::string shipped() {
  std::ifstream stream(MME_CONFIGS "/endpoint.yaml");
  REQUIRE(stream.good());
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Lines such as "  #port: 8080" without their mark; prose has a space behind it.
std::string uncommented(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t mark = line.find('#');
    const bool is_setting = mark != std::string::npos && line.find_first_not_of(' ') == mark &&
                            mark + 1 < line.size() && line[mark + 1] >= 'a' && line[mark + 1] <= 'z';
    if (is_setting) line.erase(mark, 1);
    result += line + "\n";
  }
  return result;
}

/// The commented block of `models:` as an operator would uncomment it.
std::string model_block(const std::string& text) {
  const std::size_t begin = text.find("#   models:");
  REQUIRE(begin != std::string::npos);
  std::istringstream lines(text.substr(begin));
  std::string result;
  for (std::string line; std::getline(lines, line) && line.starts_with("#   ");) result += line.substr(4) + "\n";
  return result;
}

Draft read(const std::string& text) {
  Draft draft;
  read_settings_file("endpoint.yaml", text, draft);
  for (const auto& problem : draft.problems) UNSCOPED_INFO(problem.text());
  CHECK(draft.problems.empty());
  return draft;
}

}  // namespace

TEST_CASE("the example file as it is sets nothing", "[config]") {
  CHECK(read(shipped()).origins.empty());
}

TEST_CASE("the example file shows every key with its default", "[config]") {
  const Draft draft = read(uncommented(shipped()));
  const Settings defaults;
  for (const auto& key : keys()) {
    INFO(key.name);
    CHECK(draft.origin(std::string(key.name)).layer == Layer::file);
    const std::string standard = key.show(defaults);
    if (!standard.empty()) CHECK(key.show(draft.settings) == standard);
  }
}

TEST_CASE("the example file shows every setting of a model", "[config]") {
  const Draft draft = read(model_block(shipped()));
  for (const auto& key : model_keys()) {
    INFO(key.name);
    CHECK(draft.origins.count("models.team/bert." + std::string(key.name)) == 1);
  }
}
