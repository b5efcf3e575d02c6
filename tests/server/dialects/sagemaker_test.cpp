// The container contract's calls through the router, against a service without models.
#include "server/dialects/sagemaker.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/dialect_call.hpp"
#include "tests/support/fake_model_service.hpp"

using namespace mme::server;
using namespace mme::loader;
using mme::test::Answer;
using mme::test::call;
using mme::test::FakeModelService;
using mme::test::request_of;

namespace {

const Headers kJson{{"Content-Type", "application/json"}};

struct Platform {
  FakeModelService service;
  Router router = Router::make({std::make_shared<SageMaker>(service)}).value();

  Answer get(std::string_view target) { return call(router, request_of(Method::get, target)); }
  Answer del(std::string_view target) { return call(router, request_of(Method::del, target)); }
  Answer post(std::string_view target, std::string body, Headers headers = kJson) {
    return call(router, request_of(Method::post, target, std::move(body), std::move(headers)));
  }
};

}  // namespace

TEST_CASE("ping is green with no model and red once the server drains", "[sagemaker]") {
  Platform server;
  CHECK(server.get("/ping").reply.status == 200);
  CHECK(server.get("/ping").reply.body.empty());
  server.service.is_accepting = false;
  CHECK(server.get("/ping").reply.status == 503);
}

TEST_CASE("invoke takes an array as the first input and answers a nested list", "[sagemaker]") {
  Platform server;
  server.service.add("m", Presence::stored);
  const Answer answer = server.post("/models/m/invoke", "[[1, 2.5], [3, 1e3]]");
  CHECK(answer.reply.status == 200);
  CHECK(answer.header("Content-Type") == "application/json");
  CHECK(answer.reply.body == "[[1.0, 2.5], [3.0, 1000.0]]");
  REQUIRE(server.service.last_inputs.size() == 1);
  CHECK(server.service.last_inputs[0].name == "INPUT__0");
  CHECK(server.service.last_inputs[0].tensor.type() == DataType::fp32);
  CHECK(answer.record.dialect == "sagemaker");
  CHECK(answer.record.model == "m");
  CHECK(server.post("/models/m/invoke", R"(["a", "b"])").reply.body == R"(["a", "b"])");
}

TEST_CASE("several inputs come as an Open Inference Protocol request and are answered in kind", "[sagemaker]") {
  Platform server;
  server.service.add("m", Presence::ready);
  const Answer answer = server.post(
      "/models/m/invoke", R"( {"id":"7","inputs":[{"name":"ids","shape":[1],"datatype":"INT64","data":[5]}]})");
  CHECK(answer.reply.status == 200);
  CHECK(answer.reply.body ==
        R"({"model_name":"m","id":"7","outputs":[{"name":"OUTPUT__0","datatype":"INT64","shape":[1],"data":[5]}]})");
  const Answer refused = server.post("/models/m/invoke", R"({"instances":[1]})");
  CHECK(refused.reply.status == 400);
  CHECK(refused.reply.body ==
        R"({"code":400,"type":"BadRequestException","message":"the request has no field 'inputs'"})");
}

TEST_CASE("the state of a model decides what the container answers", "[sagemaker]") {
  struct Row {
    Presence presence;
    unsigned invoke;
    bool listed;
    unsigned get;
    unsigned del;
  };
  const auto row = GENERATE(values<Row>({{Presence::stored, 200, false, 404, 404},
                                         {Presence::loading, 200, false, 404, 404},
                                         {Presence::ready, 200, true, 200, 200},
                                         {Presence::draining, 200, false, 404, 404},
                                         {Presence::broken, 422, false, 404, 404}}));
  Platform server;
  server.service.add("m", row.presence);
  CHECK(server.get("/models/m").reply.status == row.get);
  CHECK((server.get("/models").reply.body == R"({"models":[{"modelName":"m","modelUrl":"m.pt"}]})") == row.listed);
  CHECK(server.del("/models/m").reply.status == row.del);
  server.service.models["m"].presence = row.presence;
  CHECK(server.post("/models/m/invoke", "[1]").reply.status == row.invoke);
}

TEST_CASE("a model that is not stored is a 404 everywhere", "[sagemaker]") {
  Platform server;
  const std::string body = R"({"code":404,"type":"ModelNotFoundException","message":"no such model"})";
  CHECK(server.post("/models/m/invoke", "[1]").reply.body == body);
  CHECK(server.get("/models/m").reply.body == body);
  CHECK(server.del("/models/m").reply.body == body);
  const Answer load = server.post("/models", R"({"model_name":"m"})");
  CHECK(load.reply.status == 404);
  CHECK(load.header("X-MME-Reason") == "model_unknown");
}

TEST_CASE("a model is loaded once, then conflicts, then unloads", "[sagemaker]") {
  Platform server;
  server.service.add("m", Presence::stored);
  const std::string body = R"({"model_name":"m","url":"/opt/ml/models/m/model"})";
  const Answer first = server.post("/models", body, {});
  CHECK(first.reply.status == 200);
  CHECK(first.reply.body == R"({"status":"Model \"m\" loaded"})");
  CHECK(server.service.last_url == "/opt/ml/models/m/model");
  const Answer second = server.post("/models", body, {});
  CHECK(second.reply.status == 409);
  CHECK(second.header("X-MME-Reason") == "already_loaded");
  CHECK(server.get("/models/m").reply.body ==
        R"({"modelName":"m","modelUrl":"m.pt","memoryBytes":0,"stateless":true})");
  CHECK(server.del("/models/m").reply.body == R"({"status":"Model \"m\" unloaded"})");
  CHECK(server.post("/models?model_name=m&url=m.pt", "", {}).reply.status == 200);
}

TEST_CASE("names that can be none never reach the service", "[sagemaker]") {
  Platform server;
  CHECK(server.post("/models/..%2fx/invoke", "[1]").reply.status == 400);
  CHECK(server.post("/models", R"({"model_name":"../x"})").reply.status == 400);
  CHECK(server.get("/models/a%20b").reply.status == 400);
  CHECK(server.del("/models/%2e%2e%2fx").reply.status == 400);
  CHECK(server.post("/invocations?model_name=..%2Fx", "[1]").reply.status == 400);
  CHECK(server.post("/invocations", "[1]", {{"X-Amzn-SageMaker-Target-Model", "../x"}}).reply.status == 400);
  CHECK(server.service.calls == 0);
}

TEST_CASE("an invocation finds its model by query, header, or because there is only one", "[sagemaker]") {
  Platform server;
  CHECK(server.post("/invocations", "[1]").reply.status == 400);
  server.service.add("a", Presence::stored);
  CHECK(server.post("/invocations", "[1]").reply.status == 200);
  CHECK(server.service.last_model.name == "a");
  server.service.add("team/b", Presence::stored);
  CHECK(server.post("/invocations", "[1]").reply.status == 400);
  CHECK(server.post("/invocations?model_name=team%2Fb", "[1]").reply.status == 200);
  CHECK(server.service.last_model.name == "team/b");
  const auto by_header = [&server](const std::string& name, const std::string& value) {
    const Answer answer = server.post("/invocations", "[1]", {{name, value}});
    return answer.reply.status == 200 ? server.service.last_model.name : std::to_string(answer.reply.status);
  };
  CHECK(by_header("X-Amzn-SageMaker-Target-Model", "a") == "a");
  CHECK(by_header("x-amzn-target-model", "team/b") == "team/b");
  CHECK(by_header("X-Amzn-SageMaker-Target-Model", "team/b.tar.gz") == "team/b");
  CHECK(by_header("X-Amzn-SageMaker-Target-Model", "a.pt") == "a");
  CHECK(by_header("X-Amzn-SageMaker-Target-Model", "none.tar.gz") == "404");
  server.service.add("a.pt", Presence::stored);
  CHECK(by_header("X-Amzn-SageMaker-Target-Model", "a.pt") == "a.pt");
}

TEST_CASE("the target header of invoke is for information only", "[sagemaker]") {
  Platform server;
  server.service.add("m", Presence::ready);
  server.post("/models/m/invoke", "[1]", {{"X-Amzn-SageMaker-Target-Model", "other.tar.gz"}});
  CHECK(server.service.last_model.name == "m");
}

TEST_CASE("types that cannot be read or answered are refused before the model runs", "[sagemaker]") {
  Platform server;
  server.service.add("m", Presence::ready);
  const auto status = [&server](const std::string& name, const std::string& value) {
    return server.post("/models/m/invoke", "[1]", {{name, value}}).reply.status;
  };
  CHECK(status("Content-Type", "application/json;charset=utf-8") == 200);
  CHECK(status("X-Other", "1") == 200);
  CHECK(status("Content-Type", "text/csv") == 415);
  CHECK(status("Content-Type", "application/x-www-form-urlencoded") == 415);
  CHECK(status("Accept", "*/*") == 200);
  CHECK(status("Accept", "text/csv, application/json;q=0.5") == 200);
  CHECK(status("Accept", "text/csv") == 406);
  CHECK(status("Accept", "application/json;q=0") == 406);
  CHECK(server.service.calls == 4);
}

TEST_CASE("bodies that are no tensor are refused", "[sagemaker]") {
  Platform server;
  server.service.add("m", Presence::ready);
  const auto body =
      GENERATE(as<std::string>{}, "", "[", "[[1],[2,3]]", "[NaN]", "[null]", "{}", "{\"inputs\":1}", "[1,\"a\"]");
  INFO(body);
  const Answer answer = server.post("/models/m/invoke", body);
  CHECK(answer.reply.status == 400);
  CHECK(answer.reply.body.starts_with(R"({"code":400,"type":"BadRequestException","message":")"));
  CHECK(server.service.calls == 0);
}

TEST_CASE("loading and unloading are for administrators", "[sagemaker]") {
  FakeModelService service;
  SageMaker dialect(service);
  for (const Route& route : dialect.routes()) {
    INFO(route.pattern);
    const bool changes = route.method == Method::del || (route.method == Method::post && route.pattern == "/models");
    CHECK((route.access == Access::admin) == changes);
  }
}

TEST_CASE("unknown verbs answer in the contract's shape", "[sagemaker]") {
  Platform server;
  const Answer answer = server.get("/invocations");
  CHECK(answer.reply.status == 405);
  CHECK(answer.header("Allow") == "POST");
  CHECK(answer.reply.body.starts_with(R"({"code":405,"type":"MethodNotAllowedException")"));
}
