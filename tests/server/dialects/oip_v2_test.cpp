// The protocol's calls through the router, against a service without models.
#include "server/dialects/oip_v2.hpp"

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

const std::string kInput = R"({"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]}]})";

struct Server {
  FakeModelService service;
  Router router =
      Router::make({std::make_shared<OipV2>(service, OipOptions{.version = "0.1.0", .offers_repository = true})})
          .value();

  Answer get(std::string_view target) { return call(router, request_of(Method::get, target)); }
  Answer post(std::string_view target, std::string body = kInput, Headers headers = {}) {
    return call(router, request_of(Method::post, target, std::move(body), std::move(headers)));
  }
};

}  // namespace

TEST_CASE("infer runs the model that the path names and tells the access record", "[oip]") {
  Server server;
  server.service.add("m", Presence::stored);
  const Answer answer = server.post("/v2/models/m/infer");
  CHECK(answer.reply.status == 200);
  CHECK(answer.header("Content-Type") == "application/json");
  CHECK(answer.reply.body ==
        R"({"model_name":"m","outputs":[{"name":"OUTPUT__0","datatype":"FP32","shape":[2],"data":[1.0,2.0]}]})");
  CHECK(answer.record.dialect == "oip_v2");
  CHECK(answer.record.model == "m");
  CHECK(answer.record.cache == "miss");
  CHECK(answer.record.reason.empty());
  CHECK(server.post("/v2/models/m/infer").record.cache == "hit");
}

TEST_CASE("errors have the protocol's shape, a reason and no model that does not exist", "[oip]") {
  Server server;
  const Answer answer = server.post("/v2/models/none/infer");
  CHECK(answer.reply.status == 404);
  CHECK(answer.reply.body == R"({"error":"no such model"})");
  CHECK(answer.header("X-MME-Reason") == "model_unknown");
  CHECK(answer.record.reason == "model_unknown");
  CHECK(answer.record.model.empty());
  CHECK(server.post("/v2/models/m/infer", "{").header("X-MME-Reason") == "invalid_request");
}

TEST_CASE("names and versions that can be none never reach the service", "[oip]") {
  Server server;
  const auto path = GENERATE(as<std::string>{}, "/v2/models/a%20b/infer", "/v2/models/..%2fx/infer",
                             "/v2/models/.hidden/infer", "/v2/models/a%2F%2Fb/infer", "/v2/models/m/versions/x/infer",
                             "/v2/models/m/versions/1234567890123456789/infer", "/v2/models/m/versions/-1/infer");
  INFO(path);
  CHECK(server.post(path).reply.status == 400);
  CHECK(server.service.calls == 0);
}

TEST_CASE("a name of several parts comes percent-encoded, a version by its own path", "[oip]") {
  Server server;
  server.service.add("team/m", Presence::ready, "3");
  const Answer answer = server.post("/v2/models/team%2Fm/versions/3/infer");
  CHECK(answer.reply.status == 200);
  CHECK(answer.reply.body.starts_with(R"({"model_name":"team/m","model_version":"3","outputs":)"));
  CHECK(server.post("/v2/models/team%2Fm/versions/4/infer").reply.status == 404);
}

TEST_CASE("the state of a model decides its answers", "[oip]") {
  struct Row {
    Presence presence;
    unsigned infer;
    unsigned ready;
    const char* index;
  };
  const auto row = GENERATE(values<Row>(
      {{Presence::stored, 200, 200, R"([{"name":"m","state":"UNAVAILABLE","reason":"not in memory"}])"},
       {Presence::loading, 200, 200, R"([{"name":"m","state":"LOADING","reason":""}])"},
       {Presence::ready, 200, 200, R"([{"name":"m","state":"READY","reason":""}])"},
       {Presence::draining, 200, 200, R"([{"name":"m","state":"UNLOADING","reason":""}])"},
       {Presence::broken, 422, 503, R"([{"name":"m","state":"UNAVAILABLE","reason":"the archive has no end"}])"}}));
  Server server;
  server.service.add("m", row.presence);
  CHECK(server.post("/v2/repository/index", "").reply.body == row.index);
  CHECK(server.get("/v2/models/m/ready").reply.status == row.ready);
  CHECK(server.get("/v2/models/m").reply.status == 200);
  CHECK(server.post("/v2/models/m/infer").reply.status == row.infer);
}

TEST_CASE("a model that is not stored is nowhere", "[oip]") {
  Server server;
  CHECK(server.get("/v2/models/m/ready").reply.status == 404);
  CHECK(server.get("/v2/models/m").reply.status == 404);
  CHECK(server.post("/v2/repository/index", "").reply.body == "[]");
  CHECK(server.post("/v2/repository/models/m/load", "").reply.status == 404);
  CHECK(server.post("/v2/repository/models/m/unload", "").reply.status == 404);
}

TEST_CASE("metadata shows what is known of a model", "[oip]") {
  Server server;
  auto& info = server.service.add("m", Presence::ready, "2");
  CHECK(server.get("/v2/models/m").reply.body ==
        R"({"name":"m","versions":["2"],"platform":"pytorch_torchscript","inputs":[],"outputs":[]})");
  info.versions = {"1", "2"};
  info.signature =
      Signature{{{"x", ArgumentKind::tensor, false, "Tensor"}, {"t", ArgumentKind::string_list, false, ""}},
                {{"y", DataType::int64, {-1, 3}}}};
  CHECK(server.get("/v2/models/m/versions/2").reply.body ==
        R"({"name":"m","versions":["1","2"],"platform":"pytorch_torchscript",)"
        R"("inputs":[{"name":"x","datatype":"FP32","shape":[-1]},{"name":"t","datatype":"BYTES","shape":[-1]}],)"
        R"("outputs":[{"name":"y","datatype":"INT64","shape":[-1,3]}]})");
}

TEST_CASE("the server tells who it is and how it feels", "[oip]") {
  Server server;
  const std::string metadata = R"({"name":"mme","version":"0.1.0","extensions":["model_repository"]})";
  CHECK(server.get("/v2").reply.body == metadata);
  CHECK(server.get("/v2/").reply.body == metadata);
  CHECK(server.get("/v2/health/live").reply.status == 200);
  CHECK(server.get("/v2/health/ready").reply.status == 200);
  server.service.is_ready = false;
  CHECK(server.get("/v2/health/live").reply.status == 200);
  const Answer answer = server.get("/v2/health/ready");
  CHECK(answer.reply.status == 503);
  CHECK(answer.reply.body == R"({"error":"the server is not ready"})");
}

TEST_CASE("loading a model that is there already is no mistake in this protocol", "[oip]") {
  Server server;
  server.service.add("m", Presence::stored);
  const Answer first = server.post("/v2/repository/models/m/load", "");
  CHECK(first.reply.status == 200);
  CHECK(first.reply.body.empty());
  CHECK(server.post("/v2/repository/models/m/load", "{}").reply.status == 200);
  CHECK(server.service.models["m"].presence == Presence::ready);
  CHECK(server.post("/v2/repository/models/m/unload", "").reply.status == 200);
  CHECK(server.service.models["m"].presence == Presence::stored);
  CHECK(server.post("/v2/repository/models/m/unload", "").reply.status == 404);
  CHECK(server.post("/v2/repository/models/m/load", R"({"parameters":{"config":"{}"}})").reply.status == 400);
}

TEST_CASE("changing calls are an administrator's", "[oip]") {
  FakeModelService service;
  OipV2 dialect(service, {.version = "0", .offers_repository = true});
  for (const Route& route : dialect.routes()) {
    INFO(route.pattern);
    const bool changes = route.pattern.ends_with("load");
    CHECK((route.access == Access::admin) == changes);
  }
}

TEST_CASE("the index can be limited to what is ready", "[oip]") {
  Server server;
  server.service.add("a", Presence::ready, "1");
  server.service.add("b", Presence::stored);
  CHECK(server.post("/v2/repository/index", R"({"ready":true})").reply.body ==
        R"([{"name":"a","version":"1","state":"READY","reason":""}])");
  CHECK(server.post("/v2/repository/index", R"({"ready":"yes"})").reply.status == 400);
}

TEST_CASE("content types of JSON clients are taken, others are refused", "[oip]") {
  Server server;
  server.service.add("m", Presence::ready);
  const auto status = [&server](const std::string& name, const std::string& value) {
    return server.post("/v2/models/m/infer", kInput, {{name, value}}).reply.status;
  };
  CHECK(status("Content-Type", "application/json; charset=utf-8") == 200);
  CHECK(status("content-type", "Application/JSON") == 200);
  CHECK(status("Content-Type", "application/x-www-form-urlencoded") == 200);
  CHECK(status("Content-Type", "application/octet-stream") == 415);
  CHECK(status("Content-Type", "text/csv") == 415);
  CHECK(status("Inference-Header-Content-Length", "12") == 415);
}

TEST_CASE("the time-out of a request lowers its deadline", "[oip]") {
  Server server;
  server.service.add("m", Presence::ready);
  Request request = request_of(Method::post, "/v2/models/m/infer", kInput);
  request.deadline = Clock::now() + std::chrono::seconds(60);
  call(server.router, request);
  CHECK(server.service.last_deadline == request.deadline);
  request.body.insert(1, R"("parameters":{"timeout":1000},)");
  call(server.router, request);
  CHECK(server.service.last_deadline < Clock::now() + std::chrono::seconds(1));
}

TEST_CASE("a model that raises is a 500 with its own words", "[oip]") {
  Server server;
  server.service.add("m", Presence::ready);
  server.service.runs["m"] = [](const TensorMap&) -> Result<TensorMap> {
    return fail(ErrorCode::inference_failed, "the model raised: boom");
  };
  const Answer answer = server.post("/v2/models/m/infer");
  CHECK(answer.reply.status == 500);
  CHECK(answer.reply.body == R"({"error":"the model raised: boom"})");
}

TEST_CASE("outputs that the model does not have are refused by name", "[oip]") {
  Server server;
  server.service.add("m", Presence::ready);
  const std::string body = R"({"outputs":[{"name":"none"}],)" + kInput.substr(1);
  const Answer answer = server.post("/v2/models/m/infer", body);
  CHECK(answer.reply.status == 400);
  CHECK(answer.reply.body == R"({"error":"the model has no output 'none'"})");
  CHECK(answer.record.reason == "invalid_request");
}

TEST_CASE("unknown paths and verbs below this protocol answer in its shape", "[oip]") {
  Server server;
  CHECK(server.get("/v2/models/m/infer").reply.status == 405);
  CHECK(server.get("/v2/nothing").reply.body.starts_with(R"({"error":)"));
}
