// The container contract's bodies: arrays in, nested lists out, pages that show every model once.
#include "server/dialects/sagemaker_wire.hpp"

#include <cmath>
#include <set>

#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace mme::loader;

namespace {

std::vector<ModelInfo> models_named(std::initializer_list<std::string> names) {
  std::vector<ModelInfo> models;
  for (const std::string& name : names) {
    ModelInfo info;
    info.name = name;
    info.url = name + ".pt";
    models.push_back(info);
  }
  return models;
}

Request load_with(std::string body, Headers query = {}) {
  Request request;
  request.body = std::move(body);
  request.query = std::move(query);
  return request;
}

}  // namespace

TEST_CASE("one output is a bare nested list, several are an object", "[sagemaker]") {
  const auto one = Tensor::take<float>(DataType::fp32, {1, 2}, {1.F, NAN});
  const auto text = Tensor::strings({}, {"yes"});
  CHECK(sagemaker::write_outputs({{"OUTPUT__0", *one}}).value() == "[[1.0, NaN]]");
  CHECK(sagemaker::write_outputs({{"a", *one}, {"b", *text}}).value() == R"({"a": [[1.0, NaN]], "b": "yes"})");
  CHECK(sagemaker::write_outputs({{"a", *Tensor::strings({1}, {"\xff"})}}).error().code == ErrorCode::not_acceptable);
}

TEST_CASE("a load is asked for by body or by query", "[sagemaker]") {
  const auto body = sagemaker::read_load_request(
      load_with(R"({"model_name":"m","url":"/opt/ml/models/m/model","initial_workers":2})", {{"model_name", "no"}}));
  REQUIRE(body.has_value());
  CHECK(body->model_name == "m");
  CHECK(body->url == "/opt/ml/models/m/model");
  const auto query = sagemaker::read_load_request(load_with("", {{"url", "m.pt"}, {"model_name", "m"}}));
  REQUIRE(query.has_value());
  CHECK(query->url == "m.pt");
  CHECK(sagemaker::read_load_request(load_with(R"({"model_name":"m"})"))->url == std::nullopt);
  CHECK(sagemaker::read_load_request(load_with("")).error().message ==
        "the request names no model: it has no 'model_name'");
  CHECK(sagemaker::read_load_request(load_with(R"({"url":"m"})")).has_error());
  CHECK(sagemaker::read_load_request(load_with(R"({"model_name":1})")).has_error());
  CHECK(sagemaker::read_load_request(load_with(R"({"model_name":"m","url":null})")).has_error());
  CHECK(sagemaker::read_load_request(load_with(R"({"model_name":"m","model_name":"n"})")).has_error());
}

TEST_CASE("pages show every model exactly once and end without a token", "[sagemaker]") {
  std::vector<ModelInfo> models;
  for (int i = 0; i < 1'000; ++i) models.push_back(models_named({"model-" + std::to_string(i * 7919 % 1'000)}).front());
  const auto limit = GENERATE(as<std::string>{}, "1", "7", "100", "250", "99999999999999999999");
  std::set<std::string> seen;
  std::optional<std::string> token;
  std::size_t pages = 0;
  do {
    const auto page = sagemaker::page_of(models, limit, token ? std::optional<std::string_view>(*token) : std::nullopt);
    REQUIRE(page.has_value());
    REQUIRE_FALSE(page->models.empty());
    for (const ModelInfo& info : page->models) REQUIRE(seen.insert(info.name).second);
    token = page->next;
    if (limit == "1" && ++pages == 50) break;  // enough of these
  } while (token);
  if (limit != "1") CHECK(seen.size() == 1'000);
}

TEST_CASE("a page that ends with the list has no token", "[sagemaker]") {
  const auto page = sagemaker::page_of(models_named({"a", "b"}), "2", std::nullopt);
  CHECK(page->next == std::nullopt);
  CHECK(sagemaker::write_page(*page) ==
        R"({"models":[{"modelName":"a","modelUrl":"a.pt"},{"modelName":"b","modelUrl":"b.pt"}]})");
  CHECK(sagemaker::write_page(*sagemaker::page_of({}, std::nullopt, std::nullopt)) == R"({"models":[]})");
}

TEST_CASE("paging goes on where it was when models come and go", "[sagemaker]") {
  const auto first = sagemaker::page_of(models_named({"a", "b", "c", "d"}), "2", std::nullopt);
  REQUIRE(first->next);
  const auto second = sagemaker::page_of(models_named({"a1", "c", "d"}), "2", *first->next);
  REQUIRE(second->models.size() == 2);
  CHECK(second->models[0].name == "c");
  CHECK(second->next == std::nullopt);
}

TEST_CASE("two versions of one name are one model in the list", "[sagemaker]") {
  CHECK(sagemaker::page_of(models_named({"a", "a", "b"}), std::nullopt, std::nullopt)->models.size() == 2);
}

TEST_CASE("limits and tokens that are none are refused", "[sagemaker]") {
  for (const char* limit : {"0", "-1", "x", "", "1x", " 1"}) {
    INFO(limit);
    CHECK(sagemaker::page_of({}, limit, std::nullopt).has_error());
  }
  for (const char* token : {"", "x", "6", "6g", "61 "}) {
    INFO(token);
    CHECK(sagemaker::page_of({}, std::nullopt, token).has_error());
  }
}

TEST_CASE("every error has its status and a type", "[sagemaker]") {
  CHECK(sagemaker::write_error(fail(ErrorCode::model_unknown, "no \"x\"")) ==
        R"({"code":404,"type":"ModelNotFoundException","message":"no \"x\""})");
  CHECK(sagemaker::write_error(fail(ErrorCode::cannot_fit, "too large")) ==
        R"({"code":507,"type":"InsufficientMemoryException","message":"too large"})");
}
