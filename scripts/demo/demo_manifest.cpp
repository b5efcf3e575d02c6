// The manifest and the answers, read with simdjson.
// Nested data arrays are not expected: the server writes tensors flat.
#include "scripts/demo/demo_manifest.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace mme::demo {
namespace {

namespace dom = simdjson::dom;

std::vector<double> numbers(dom::element data) {
  std::vector<double> values;
  for (const dom::element value : dom::array(data)) {
    // Whole numbers come as integers; the examples have none that a double cannot hold.
    values.push_back(value.is_double() ? double(value) : static_cast<double>(std::int64_t(value)));
  }
  return values;
}

std::vector<ExpectedOutput> outputs(dom::element list) {
  std::vector<ExpectedOutput> all;
  for (const dom::element output : dom::array(list)) {
    all.push_back({std::string(std::string_view(output["name"])), numbers(output["data"])});
  }
  return all;
}

bool is_near(double found, double expected) {
  return std::abs(found - expected) <= 1e-5 + 1e-3 * std::abs(expected);  // false for NaN
}

bool fits(const ExpectedOutput& found, const ExpectedOutput& expected) {
  return (expected.name.empty() || expected.name == found.name) &&
         std::ranges::equal(found.values, expected.values, is_near);
}

bool all_finite(const ExpectedOutput& output) {
  return !output.values.empty() && std::ranges::all_of(output.values, [](double v) { return std::isfinite(v); });
}

}  // namespace

std::vector<DemoModel> read_manifest(std::string_view json) try {
  dom::parser parser;
  std::vector<DemoModel> models;
  for (const dom::element entry : dom::array(parser.parse(json.data(), json.size()))) {
    DemoModel model;
    model.name = std::string_view(entry["model"]);
    model.about = std::string_view(entry["about"]);
    model.file_bytes = std::uint64_t(entry["bytes"]);
    model.request = simdjson::minify(dom::element(entry["request"]));
    if (!entry["answers"].is_null()) model.answers = outputs(entry["answers"]);
    models.push_back(std::move(model));
  }
  return models;
} catch (const simdjson::simdjson_error& error) {
  throw std::runtime_error(std::string("the manifest cannot be read: ") + error.what());
}

std::vector<DemoModel> read_manifest_file(const std::filesystem::path& file) {
  simdjson::padded_string text;
  if (simdjson::padded_string::load(file.string()).get(text) != simdjson::SUCCESS) {
    throw std::runtime_error("the manifest cannot be opened");
  }
  return read_manifest(text);
}

bool is_right(std::string_view reply, const std::optional<std::vector<ExpectedOutput>>& answers) try {
  dom::parser parser;
  const dom::element body = parser.parse(reply.data(), reply.size());
  const std::vector<ExpectedOutput> found = outputs(body["outputs"]);
  if (answers) return std::ranges::equal(found, *answers, fits);
  return !found.empty() && std::ranges::all_of(found, all_finite);
} catch (const simdjson::simdjson_error&) {
  return false;
}

}  // namespace mme::demo
