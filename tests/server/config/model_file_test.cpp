// Settings of one model: in its own file, under `models:`, and both together.
#include "server/config/settings_file.hpp"
#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace std::chrono_literals;
using mme::loader::DataType;
using mme::loader::Shape;

namespace {

using Lines = std::vector<std::string>;

Lines model_file_problems(std::string_view text) {
  Lines lines;
  for (const auto& problem : read_model_file("bert.yaml", text).problems) lines.push_back(problem.text());
  return lines;
}

}  // namespace

TEST_CASE("a model's own file sets everything but its aliases", "[config]") {
  const auto file = read_model_file("bert.yaml", R"(
pinned: true
queue_size: 7
timeout: 1500ms
default_version: 3
inputs:
  - {name: ids, datatype: INT64, shape: [-1, 128]}
  - name: mask
outputs:
  - {name: logits, datatype: FP32}
)");
  REQUIRE(file.problems.empty());
  const ModelOptions& options = file.options;
  CHECK(options.pinned == true);
  CHECK(options.queue_size == 7U);
  CHECK(options.timeout == 1500ms);
  CHECK(options.default_version == "3");
  REQUIRE(options.inputs.size() == 2);
  CHECK(options.inputs[0] == TensorOptions{"ids", DataType::int64, Shape{-1, 128}});
  CHECK(options.inputs[1] == TensorOptions{"mask", std::nullopt, std::nullopt});
  CHECK(options.outputs == std::vector<TensorOptions>{{"logits", DataType::fp32, std::nullopt}});
  CHECK(read_model_file("bert.yaml", "").problems.empty());
  CHECK(read_model_file("bert.yaml", "# nothing\n").problems.empty());
}

TEST_CASE("every mistake in a model's own file is told with its line", "[config]") {
  struct Row {
    const char* text;
    const char* problem;
  };
  const Row table[] = {
      {"pinned: yes", "bert.yaml:1: pinned: must be true or false"},
      {"\npinned: 1", "bert.yaml:2: pinned: must be true or false"},
      {"colour: red", "bert.yaml:1: colour: unknown setting of a model"},
      {"pinned: true\npinned: true", "bert.yaml:2: pinned: repeated key, first given in line 1"},
      {"aliases: [b]", "bert.yaml:1: aliases: can only be given under models: in the server's own settings"},
      {"- pinned", "bert.yaml:1: must be a map of settings"},
      {"text", "bert.yaml:1: must be a map of settings"},
      {"queue_size: 0", "bert.yaml:1: queue_size: must be between 1 and 1000000"},
      {"queue_size: 010", "bert.yaml:1: queue_size: a number must not begin with 0, it looks octal"},
      {"timeout: 0s", "bert.yaml:1: timeout: must be at least 1ms"},
      {"default_version: v1", "bert.yaml:1: default_version: must be a version: 1 to 18 digits"},
      {"default_version: -1", "bert.yaml:1: default_version: must be a version: 1 to 18 digits"},
      {"inputs: ids", "bert.yaml:1: inputs: takes a list of sections with name, datatype and shape"},
      {"inputs: [ids]", "bert.yaml:1: inputs: takes a list of sections with name, datatype and shape"},
      {"inputs: {name: ids}", "bert.yaml:1: inputs: takes a value, not a section"},
      {"inputs: [{name: a}, b]", "bert.yaml:1: inputs: takes a list of plain values"},
      {"inputs: [{datatype: FP32}]", "bert.yaml:1: inputs: entry 1: has no name"},
      {"inputs: [{name: a}, {name: a}]", "bert.yaml:1: inputs: entry 2: 'a' is listed twice"},
      {"inputs: [{name: a, type: FP32}]", "bert.yaml:1: inputs: entry 1: 'type' is no setting of a tensor"},
      {"inputs: [{name: a, datatype: float}]",
       "bert.yaml:1: inputs: entry 1: datatype must be one of BOOL, UINT8 .. INT64, FP16, BF16, FP32, FP64, BYTES"},
      {"inputs: [{name: a, datatype: }]", "bert.yaml:1: inputs.datatype: has no value"},
      {"inputs: [{name: a, shape: 3}]", "bert.yaml:1: inputs: entry 1: shape must be a list of at most 64 numbers"},
      {"inputs: [{name: a, shape: [-2]}]",
       "bert.yaml:1: inputs: entry 1: shape holds numbers from 0 to 2147483647, and -1 for any"},
      {"inputs: [{name: a, shape: [[1]]}]", "bert.yaml:1: inputs.shape: takes a list of plain values"},
      {"pinned: [{a: 1}]", "bert.yaml:1: pinned: takes one value, not a list"},
  };
  for (const auto& row : table) {
    INFO(row.text);
    CHECK(model_file_problems(row.text) == Lines{row.problem});
  }
  CHECK(model_file_problems("pinned: 1\ntimeout: 5\ncolour: red").size() == 3);
}

TEST_CASE("what the server says of a model wins over the model's own file, field by field", "[config]") {
  Draft draft;
  read_settings_file("f.yaml", "models: {bert: {pinned: false, timeout: 1s}}", draft);
  REQUIRE(draft.problems.empty());
  const auto file = read_model_file("bert.yaml", "pinned: true\nqueue_size: 9");
  const auto options = draft.settings.options_of("bert").or_else(file.options);
  CHECK(options.pinned == false);
  CHECK(options.timeout == 1s);
  CHECK(options.queue_size == 9U);
  // A name in cache.pinned is pinned, whatever is said elsewhere.
  draft.settings.cache.pinned = {"bert"};
  CHECK(draft.settings.options_of("bert").or_else(file.options).pinned == true);
}

TEST_CASE("settings of models are read under models: as well, lists of sections too", "[config]") {
  Draft draft;
  read_settings_file("f.yaml", "models:\n  a:\n    inputs: [{name: x, datatype: BYTES}]\n    aliases: [b, c]\n", draft);
  REQUIRE(draft.problems.empty());
  CHECK(draft.settings.models.at("a").inputs[0].datatype == DataType::bytes);
  CHECK(draft.settings.models.at("a").aliases == Lines{"b", "c"});
  CHECK(draft.origin("models.a.aliases").text() == "file f.yaml:4");
}
