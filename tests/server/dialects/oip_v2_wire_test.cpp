// The protocol's bodies: what is read, what is refused and why, what is written.
#include "server/dialects/oip_v2_wire.hpp"

#include "tests/support/catch.hpp"

using namespace mme::server;
using namespace mme::loader;

namespace {

Error error_of(const std::string& body) {
  auto request = oip::read_infer_request(body);
  REQUIRE(request.has_error());
  CHECK(request.error().message.size() < 300);
  CHECK(request.error().message.find('\n') == std::string::npos);
  return request.error();
}

std::string input(const std::string& name) {
  return R"({"name":")" + name + R"(","shape":[1],"datatype":"FP32","data":[1]})";
}

std::string with(const std::string& fields) {
  return R"({"inputs":[)" + input("x") + "]," + fields + "}";
}

}  // namespace

TEST_CASE("a full request is read whole", "[oip]") {
  const auto request = oip::read_infer_request(R"({
    "id": "42", "parameters": {"timeout": 1500000, "priority": 1, "trace": "on", "x": true},
    "inputs": [
      {"name": "b", "shape": [2, 2], "datatype": "INT64", "data": [[1, 2], [3, 9007199254740993]], "parameters": {}},
      {"datatype": "BYTES", "data": ["text"], "name": "a", "shape": [1]}],
    "outputs": [{"name": "second"}, {"name": "first", "parameters": {"binary_data": false}}]})");
  REQUIRE(request.has_value());
  CHECK(request->id == "42");
  CHECK(request->timeout == std::chrono::milliseconds(1500));
  REQUIRE(request->inputs.size() == 2);
  CHECK(request->inputs[0].name == "b");
  CHECK(request->inputs[0].tensor.shape() == Shape{2, 2});
  CHECK(request->inputs[1].tensor.strings()[0] == "text");
  CHECK(request->outputs == std::vector<std::string>{"second", "first"});
}

TEST_CASE("what is missing, repeated or of the wrong kind is named", "[oip]") {
  struct Row {
    std::string body;
    std::string message;
  };
  const auto row = GENERATE(values<Row>({
      {"[]", "the request must be a JSON object, not an array"},
      {"{}", "the request has no field 'inputs'"},
      {R"({"inputs":{}})", "'inputs' must be an array, not an object"},
      {R"({"inputs":[1]})", "an input must be a JSON object, not a number"},
      {R"({"inputs":[{}]})", "an input has no field 'name'"},
      {R"({"inputs":[{"name":1}]})", "'name' of an input must be a string, not a number"},
      {R"({"inputs":[{"name":""}]})", "'name' of an input must be 1 to 256 printable bytes"},
      {R"({"inputs":[{"name":"a\nb"}]})", "'name' of an input must be 1 to 256 printable bytes"},
      {R"({"inputs":[{"name":"x"}]})", "input 'x' has no field 'shape'"},
      {R"({"inputs":[{"name":"x","shape":[1]}]})", "input 'x' has no field 'datatype'"},
      {R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32"}]})", "input 'x' has no field 'data'"},
      {R"({"inputs":[{"name":"x","shape":[1],"datatype":"fp32","data":[1]}]})",
       "input 'x' has the unknown datatype 'fp32'"},
      {R"({"inputs":[{"name":"x","shape":[1],"shape":[2],"datatype":"FP32","data":[1]}]})",
       "an input has the field 'shape' twice"},
      {R"({"inputs":[],"inputs":[]})", "the request has the field 'inputs' twice"},
      {R"({"inputs":[],"extra":1,"extra":2})", "the request has the field 'extra' twice"},
      {"{\"inputs\":[" + input("x") + "," + input("x") + "]}", "input 'x' is given twice"},
      {with(R"("outputs":[{"name":"y"},{"name":"y"}])"), "output 'y' is given twice"},
      {with(R"("outputs":"y")"), "'outputs' must be an array, not a string"},
      {with(R"("outputs":["y"])"), "a requested output must be a JSON object, not a string"},
      {with(R"("id":7)"), "'id' of the request must be a string, not a number"},
      {with(R"("parameters":[])"), "'parameters' of the request must be a JSON object, not an array"},
      {with(R"("parameters":{"a":{}})"), "the parameter 'a' of the request must be a string, a number or a boolean"},
      {with(R"("parameters":{"a":null})"), "the parameter 'a' of the request must be a string, a number or a boolean"},
      {with(R"("parameters":{"timeout":-1})"), "the parameter 'timeout' must be a number of whole microseconds"},
      {with(R"("parameters":{"timeout":1.5})"), "the parameter 'timeout' must be a number of whole microseconds"},
      {with(R"("parameters":{"timeout":"1s"})"), "the parameter 'timeout' must be a number of whole microseconds"},
  }));
  INFO(row.body);
  CHECK(error_of(row.body).message == row.message);
}

TEST_CASE("shapes are small arrays of integers that are not negative", "[oip]") {
  const auto shape = GENERATE(as<std::string>{}, "1", "\"1\"", "[-1]", "[1.0]", "[\"1\"]", "[[1]]", "null", "{}",
                              "[18446744073709551615]", "[100000000000000000000]", "[true]");
  INFO(shape);
  const Error error = error_of(R"({"inputs":[{"name":"x","datatype":"FP32","data":[1],"shape":)" + shape + "}]}");
  CHECK(error.code == ErrorCode::invalid_tensor);
}

TEST_CASE("what would change the answer and is not offered is refused", "[oip]") {
  const auto body =
      GENERATE(as<std::string>{}, with(R"("parameters":{"binary_data_output":true})"),
               with(R"("outputs":[{"name":"y","parameters":{"binary_data":true}}])"),
               with(R"("outputs":[{"name":"y","parameters":{"classification":3}}])"),
               with(R"("outputs":[{"name":"y","parameters":{"shared_memory_region":"r"}}])"),
               R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]})",
               R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":{"shared_memory_offset":4}}]})");
  INFO(body);
  CHECK(error_of(body).message.find("not offered here") != std::string::npos);
}

TEST_CASE("unknown fields are ignored", "[oip]") {
  CHECK(oip::read_infer_request(with(R"("model_name":"x","output":[{"name":"y"}])")).has_value());
}

TEST_CASE("thousands of inputs are refused", "[oip]") {
  std::string body = R"({"inputs":[)";
  for (int i = 0; i < 10'000; ++i) body += (i > 0 ? "," : "") + input("x" + std::to_string(i));
  CHECK(error_of(body + "]}").message == "'inputs' has more than 4096 entries");
}

TEST_CASE("a client's text in a message is cut short", "[oip]") {
  const std::string lengthy(100'000, 'n');
  CHECK(error_of(R"({"inputs":[{"name":"x","shape":[1],"data":[1],"datatype":")" + lengthy + "\"}]}").message.size() <
        150);
  CHECK(error_of(R"({"inputs":[{"name":")" + lengthy + "\"}]}").message.size() < 150);
  CHECK(error_of(with("\"" + lengthy + "\":1,\"" + lengthy + "\":2")).message.size() < 150);
}

TEST_CASE("a time-out only lowers the deadline", "[oip]") {
  const auto now = Clock::now();
  oip::InferRequest request;
  CHECK(oip::deadline_of(request, now) == now);
  request.timeout = std::chrono::seconds(5);
  CHECK(oip::deadline_of(request, now) == now);
  CHECK(oip::deadline_of(request, Deadline::max()) < Clock::now() + std::chrono::seconds(6));
  request.timeout = std::chrono::microseconds::max();
  CHECK(oip::deadline_of(request, Deadline::max()) == Deadline::max());
}

TEST_CASE("a reply lists the outputs that were asked for, in that order", "[oip]") {
  TensorMap outputs{{"a", *Tensor::take<float>(DataType::fp32, {2}, {1.F, 0.5F})},
                    {"b", *Tensor::take<std::int64_t>(DataType::int64, {}, {9007199254740993})}};
  oip::InferRequest request;
  CHECK(oip::write_infer_reply("m", std::nullopt, request, outputs).value() ==
        R"({"model_name":"m","outputs":[{"name":"a","datatype":"FP32","shape":[2],"data":[1.0,0.5]},)"
        R"({"name":"b","datatype":"INT64","shape":[],"data":[9007199254740993]}]})");
  request.id = "\"q\"";
  request.outputs = {"b"};
  CHECK(oip::write_infer_reply("m", "3", request, outputs).value() ==
        R"({"model_name":"m","model_version":"3","id":"\"q\"","outputs":[)"
        R"({"name":"b","datatype":"INT64","shape":[],"data":[9007199254740993]}]})");
  request.outputs = {"b", "c"};
  const auto refused = oip::write_infer_reply("m", "3", request, outputs);
  REQUIRE(refused.has_error());
  CHECK(refused.error() == fail(ErrorCode::invalid_request, "the model has no output 'c'"));
}

TEST_CASE("bytes that JSON cannot carry are told, not bent", "[oip]") {
  const auto reply = oip::write_infer_reply("m", std::nullopt, {}, {{"t", *Tensor::strings({1}, {"\xff"})}});
  REQUIRE(reply.has_error());
  CHECK(reply.error().code == ErrorCode::not_acceptable);
}

TEST_CASE("the bodies of the repository calls may be left out and may not override a model", "[oip]") {
  CHECK(oip::read_index_request("").value() == false);
  CHECK(oip::read_index_request("{}").value() == false);
  CHECK(oip::read_index_request(R"({"ready":true})").value() == true);
  CHECK(oip::read_index_request(R"({"ready":1})").has_error());
  CHECK(oip::read_index_request("x").has_error());
  CHECK(oip::check_load_request("").has_value());
  CHECK(oip::check_load_request("{}").has_value());
  CHECK(oip::check_load_request(R"({"parameters":{"note":"x"}})").has_value());
  CHECK(oip::check_load_request(R"({"parameters":{"config":"{}"}})").has_error());
  CHECK(oip::check_load_request(R"({"parameters":{"file:1/model.pt":"AA=="}})").has_error());
  CHECK(oip::check_load_request("[]").has_error());
  CHECK(oip::check_unload_request(R"({"parameters":{"unload_dependents":true}})").has_value());
  CHECK(oip::check_unload_request("{").has_error());
}
