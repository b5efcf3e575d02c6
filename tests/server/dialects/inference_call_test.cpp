// What inference calls charge to the budget, and where large bodies are read and written.
#include "server/dialects/inference_call.hpp"

#include <future>

#include "server/codecs/json_reader.hpp"
#include "server/dialects/oip_v2.hpp"
#include "server/dialects/sagemaker.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/counted_budget.hpp"
#include "tests/support/dialect_call.hpp"
#include "tests/support/fake_model_service.hpp"
#include "tests/support/thread_executor.hpp"

using namespace mme::server;
using namespace mme::loader;
using mme::test::Answer;
using mme::test::call;
using mme::test::CountedBudget;
using mme::test::FakeModelService;
using mme::test::request_of;
using mme::test::ThreadExecutor;

namespace {

std::string numbers(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::to_string(i % 1000) + ".125";
  return text;
}
std::string protocol_body(std::size_t count) {
  return R"({"inputs":[{"name":"x","shape":[)" + std::to_string(count) + R"(],"datatype":"FP32","data":[)" +
         numbers(count) + "]}]}";
}

struct ChargedServer {
  FakeModelService service;
  CountedBudget budget;
  std::size_t response = SIZE_MAX;
  Aside aside;

  explicit ChargedServer(std::size_t limit = SIZE_MAX) : budget(limit) { service.add("m", Presence::ready); }

  Answer post(std::string_view target, std::string body) {
    const auto router = Router::make({std::make_shared<OipV2>(service, OipOptions{"0.1.0", true, aside}),
                                      std::make_shared<SageMaker>(service, SageMakerOptions{{}, aside})});
    Request request = request_of(Method::post, target, std::move(body));
    request.budget = {budget.claim(), 64 * 1024, response};
    return call(*router, std::move(request));
  }
};

constexpr std::string_view kInfer = "/v2/models/m/infer";
constexpr std::string_view kInvoke = "/models/m/invoke";

}  // namespace

TEST_CASE("A large body is charged before it is parsed, and its inputs until the last holder lets go", "[bodies]") {
  ChargedServer server;
  const std::string body = protocol_body(50'000);
  const std::size_t parsing = json_working_bytes(body);
  {
    const Answer answer = server.post(kInfer, body);
    REQUIRE(answer.reply.status == 200);
    CHECK(server.budget.peak() >= parsing);
    REQUIRE(answer.reply.grant != nullptr);
    // The service remembers the last inputs: 50,000 floats. And there is the reply.
    CHECK(server.budget.used() == 200'000 + answer.reply.body.capacity());
  }
  CHECK(server.budget.used() == 200'000);
  server.service.last_inputs.clear();
  CHECK(server.budget.used() == 0);
}

TEST_CASE("A small body and a small reply are not charged", "[bodies]") {
  ChargedServer server;
  CHECK(server.post(kInfer, protocol_body(100)).reply.status == 200);
  CHECK(server.post(kInvoke, "[1, 2, 3]").reply.status == 200);
  CHECK(server.budget.peak() == 0);
}

TEST_CASE("Without room to parse it, a body is refused and no model is called", "[bodies]") {
  const std::string body = protocol_body(50'000);
  for (const std::string_view path : {kInfer, kInvoke}) {
    ChargedServer server(json_working_bytes(body) - 1);
    const Answer answer = server.post(path, body);
    CHECK(answer.reply.status == 507);
    CHECK(answer.record.reason == "all_in_use");
    CHECK(server.service.calls == 0);
    CHECK(server.budget.used() == 0);
  }
}

TEST_CASE("Without room to write it, a reply is refused, and all that was charged is given back", "[bodies]") {
  ChargedServer server(1'000'000);
  server.service.runs["m"] = [](const TensorMap&) -> Result<TensorMap> {
    std::vector<float> values(200'000, 0.1F);
    return TensorMap{{"y", *Tensor::take<float>(DataType::fp32, {200'000}, std::move(values))}};
  };
  for (const std::string_view path : {kInfer, kInvoke}) {
    const Answer answer = server.post(path, protocol_body(2));
    CHECK(answer.reply.status == 507);
    CHECK(answer.record.reason == "all_in_use");
  }
  CHECK(server.budget.used() == 0);
}

TEST_CASE("A reply over the limit is not written to its end", "[bodies]") {
  ChargedServer server;
  server.response = 300'000;
  server.service.runs["m"] = [](const TensorMap&) -> Result<TensorMap> {
    std::vector<float> values(2'000'000, 0.1F);
    return TensorMap{{"y", *Tensor::take<float>(DataType::fp32, {2'000'000}, std::move(values))}};
  };
  for (const std::string_view path : {kInfer, kInvoke}) {
    const Answer answer = server.post(path, protocol_body(2));
    CHECK(answer.reply.status == 413);
    CHECK(answer.record.reason == "body_too_large");
  }
  CHECK(server.budget.peak() < 3'000'000);  // the whole text is 8 MB, and some of its growth counts twice
}

TEST_CASE("A reply is charged for what it takes: no less, and little more", "[bodies]") {
  ChargedServer server;
  server.service.runs["m"] = [](const TensorMap&) -> Result<TensorMap> {
    std::vector<float> values(300'000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0F / static_cast<float>(i + 1);
    std::vector<std::string> texts(1000, std::string(500, '\x01'));  // six bytes each, escaped
    return TensorMap{{"y", *Tensor::take<float>(DataType::fp32, {300, 1000}, std::move(values))},
                     {"s", *Tensor::strings({1000}, std::move(texts))}};
  };
  for (const std::string_view path : {kInfer, kInvoke}) {
    const Answer answer = server.post(path, protocol_body(2));
    REQUIRE(answer.reply.status == 200);
    CHECK(server.budget.used() == answer.reply.body.capacity());
    CHECK(answer.reply.body.capacity() < 2 * answer.reply.body.size());
  }
}

TEST_CASE("Large bodies are read and written aside, small ones where they came in", "[bodies]") {
  ThreadExecutor executor("aside", 1);
  std::atomic<int> asked{0};
  ChargedServer server;
  server.aside = [&](std::function<void()> task) {
    ++asked;
    executor.post(std::move(task));
  };
  CHECK(server.post(kInfer, protocol_body(100)).reply.status == 200);
  CHECK(asked == 0);
  for (const std::string_view path : {kInfer, kInvoke}) {
    asked = 0;
    const Answer answer = server.post(path, protocol_body(100'000));
    CHECK(answer.reply.status == 200);
    CHECK(asked == 2);
    server.service.last_inputs.clear();
    CHECK(server.budget.used() == answer.reply.body.capacity());
  }
  CHECK(server.post(kInfer, "{" + protocol_body(100'000)).reply.status == 400);
  CHECK(server.budget.used() == 0);
}
