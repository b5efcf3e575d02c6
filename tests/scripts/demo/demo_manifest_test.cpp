// The demo must notice a wrong answer.
#include "scripts/demo/demo_manifest.hpp"

#include <stdexcept>

#include "tests/support/catch.hpp"

using mme::demo::DemoModel;
using mme::demo::is_right;
using mme::demo::read_manifest;

namespace {

constexpr const char* kManifest =
    R"([{"model":"m","about":"a thing","bytes":1234,"request":{"inputs":[{"name":"x","shape":[1],"datatype":"INT64",)"
    R"("data":[9007199254740993]}]},"answers":[{"name":"","data":[0.5,2]},{"name":"score","data":[1e-7]}]},)"
    R"({"model":"counter","about":"keeps state","bytes":1,"request":{},"answers":null}])";

std::string reply(const std::string& first, const std::string& second_name = "score", const std::string& second = "0") {
  return R"({"model_name":"m","outputs":[{"name":"output0","datatype":"FP32","shape":[2],"data":[)" + first +
         R"(]},{"name":")" + second_name + R"(","datatype":"FP32","shape":[1],"data":[)" + second + "]}]}";
}

}  // namespace

TEST_CASE("a manifest is read whole, requests to the last digit") {
  const std::vector<DemoModel> models = read_manifest(kManifest);
  REQUIRE(models.size() == 2);
  CHECK(models[0].name == "m");
  CHECK(models[0].about == "a thing");
  CHECK(models[0].file_bytes == 1234);
  CHECK(models[0].request.find("9007199254740993") != std::string::npos);
  REQUIRE(models[0].answers);
  CHECK(models[0].answers->at(0).values == std::vector<double>{0.5, 2});
  CHECK_FALSE(models[1].answers);
}

TEST_CASE("what is no manifest is refused") {
  CHECK_THROWS_AS(read_manifest("{}"), std::runtime_error);
  CHECK_THROWS_AS(read_manifest("[{\"model\":\"m\"}]"), std::runtime_error);
  CHECK_THROWS_AS(read_manifest(""), std::runtime_error);
}

TEST_CASE("an answer may differ by rounding, and by nothing else") {
  const auto answers = read_manifest(kManifest)[0].answers;
  CHECK(is_right(reply("0.5, 2"), answers));
  CHECK(is_right(reply("0.5001, 2.001"), answers));
  CHECK_FALSE(is_right(reply("0.51, 2"), answers));
  CHECK_FALSE(is_right(reply("-0.5, 2"), answers));
  CHECK_FALSE(is_right(reply("0.5"), answers));
  CHECK_FALSE(is_right(reply("0.5, 2, 3"), answers));
  CHECK_FALSE(is_right(reply("0.5, 2", "other"), answers));
  CHECK_FALSE(is_right(reply("0.5, 2", "score", "0.1"), answers));
  CHECK_FALSE(is_right(R"({"outputs":[]})", answers));
  CHECK_FALSE(is_right(R"({"outputs":[{"name":"output0","data":[0.5,null]}]})", answers));
  CHECK_FALSE(is_right("", answers));
  CHECK_FALSE(is_right("gibberish", answers));
}

TEST_CASE("of a model that keeps state any finite answer is right") {
  CHECK(is_right(reply("7, 8"), std::nullopt));
  CHECK_FALSE(is_right(R"({"outputs":[]})", std::nullopt));
  CHECK_FALSE(is_right(reply("NaN, 1"), std::nullopt));
}
