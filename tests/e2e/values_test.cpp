// What goes in and what comes out, over a socket: every kind of value, every kind of wrong input (scenarios E9-E25).
#include "tests/e2e/oip.hpp"
#include "tests/support/catch.hpp"

using namespace mme::test;

namespace {

/// One server for the whole file: nothing here changes its state.
HttpClient& client() {
  static TempDir repository;
  static const bool installed = [] {
    std::map<std::string, std::string> models;
    for (const char* name : {"echo",  "two",  "mlp",  "dict", "tuple",   "list",   "nested", "str",    "liststr",
                             "pyint", "none", "cplx", "i64",  "instr",   "scalar", "empty",  "transp", "nan",
                             "bool",  "f16",  "bf16", "opt",  "scalars", "tlist",  "tdict"}) {
      models[name] = name;
    }
    install(repository.path(), models);
    return true;
  }();
  static ServerProcess server(repository.path());
  static HttpClient shared = server.client();
  (void)installed;
  return shared;
}

Json inputs(Json list) {
  return {{"inputs", std::move(list)}};
}

/// A declared refusal: the status, an {"error"} of one line, no path or address in it.
void check_refused(const Response& response, unsigned status) {
  INFO(response.body);
  CHECK(response.status == status);
  const std::string text = response.json().value("error", "");
  CHECK_FALSE(text.empty());
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.find("/tmp") == std::string::npos);
  CHECK(text.find("0x") == std::string::npos);
  CHECK_FALSE(response.header("X-MME-Reason").empty());
}

}  // namespace

TEST_CASE("E9: tensors without elements are ordinary tensors", "[values]") {
  const auto nothing = infer(client(), "echo", inputs({tensor("x", {0}, "FP32", Json::array())}));
  CHECK(nothing.status == 200);
  CHECK(output(nothing, "OUTPUT__0")["shape"] == Json({0}));
  const auto rows = infer(client(), "mlp", inputs({tensor("x", {0, 64}, "FP32", Json::array())}));
  INFO(rows.body);
  CHECK(rows.status == 200);
  CHECK(output(rows, "OUTPUT__0")["shape"] == Json({0, 64}));
}

TEST_CASE("E12: a dict answers by its keys", "[values]") {
  const auto response = infer(client(), "dict");
  INFO(response.body);
  CHECK(output(response, "a")["data"] == Json({2.0, 3.0}));
  CHECK(output(response, "b")["data"] == Json({1.0, 2.0}));
}

TEST_CASE("E13: tuples, lists and nested values answer with flat names", "[values]") {
  for (const char* model : {"tuple", "list"}) {
    const auto response = infer(client(), model);
    INFO(response.body);
    CHECK(output(response, "OUTPUT__0")["data"] == Json({1.0, 2.0}));
    CHECK(output(response, "OUTPUT__1")["data"] == Json({2.0, 3.0}));
  }
  const auto nested = infer(client(), "nested");
  INFO(nested.body);
  CHECK(output(nested, "k.0")["data"] == Json({1.0, 2.0}));
  CHECK(output(nested, "k.1.0")["data"] == Json({2.0, 3.0}));
}

TEST_CASE("E14: strings and numbers are answers, None and complex are refused by name", "[values]") {
  CHECK(output(infer(client(), "str"), "OUTPUT__0") == tensor("OUTPUT__0", {1}, "BYTES", {"hé"}));
  CHECK(output(infer(client(), "liststr"), "OUTPUT__0") == tensor("OUTPUT__0", {2}, "BYTES", {"a", "b"}));
  CHECK(output(infer(client(), "pyint"), "OUTPUT__0") == tensor("OUTPUT__0", {1}, "INT64", {2}));
  const auto none = infer(client(), "none");
  check_refused(none, 500);
  CHECK(none.body.find("None") != std::string::npos);
  const auto complex = infer(client(), "cplx");
  check_refused(complex, 500);
  CHECK(complex.body.find("omplex") != std::string::npos);
  CHECK(infer(client(), "echo").status == 200);
}

TEST_CASE("E15: 64-bit integers keep every digit", "[values]") {
  const auto product = infer(client(), "i64", inputs({tensor("x", {1}, "INT64", {1})}));
  CHECK(product.body.find("9007199254740993") != std::string::npos);
  const auto echoed = infer(client(), "echo", inputs({tensor("x", {1}, "INT64", {9007199254740993})}));
  CHECK(echoed.body.find("9007199254740993") != std::string::npos);
  const auto largest = infer(client(), "echo", inputs({tensor("x", {1}, "INT64", {9223372036854775807})}));
  CHECK(largest.body.find("9223372036854775807") != std::string::npos);
  check_refused(infer(client(), "echo", inputs({tensor("x", {1}, "INT64", {9223372036854775808U})})), 400);
}

TEST_CASE("E22: wrong names and counts are refused", "[values]") {
  const Json a = tensor("a", {1}, "FP32", {1});
  const Json b = tensor("b", {1}, "FP32", {2});
  const Json c = tensor("c", {1}, "FP32", {3});
  CHECK(output(infer(client(), "two", inputs({b, a})), "OUTPUT__0")["data"] == Json({3.0}));
  check_refused(infer(client(), "two", inputs({a})), 400);
  check_refused(infer(client(), "two", inputs({a, a})), 400);
  check_refused(infer(client(), "two", inputs({a, b, c})), 400);
  check_refused(infer(client(), "two", inputs({a, c})), 400);
  check_refused(infer(client(), "two", Json::object()), 400);
  Json many = Json::array();
  for (int i = 0; i < 10'000; ++i) many.push_back(tensor("x" + std::to_string(i), {1}, "FP32", {1}));
  check_refused(infer(client(), "two", inputs(many)), 400);
  Json unknown_output = two_floats();
  unknown_output["outputs"] = {{{"name", "nothing"}}};
  check_refused(infer(client(), "echo", unknown_output), 400);
  const auto repeated =
      client().send("POST", "/v2/models/echo/infer",
                    R"({"inputs":[{"name":"x","shape":[1],"shape":[2],"datatype":"FP32","data":[1,2]}]})",
                    {{"Content-Type", "application/json"}});
  check_refused(repeated, 400);
}

TEST_CASE("E25: flat and nested data are equal, ragged data is refused", "[values]") {
  const auto flat = infer(client(), "echo", inputs({tensor("x", {2, 2}, "FP32", {1, 2, 3, 4})}));
  const auto nested = infer(client(), "echo", inputs({tensor("x", {2, 2}, "FP32", {{1, 2}, {3, 4}})}));
  CHECK(flat.status == 200);
  CHECK(output(flat, "OUTPUT__0") == output(nested, "OUTPUT__0"));
  check_refused(infer(client(), "echo", inputs({tensor("x", {2, 2}, "FP32", {{1, 2, 3}, {4}})})), 400);
  check_refused(infer(client(), "echo", inputs({tensor("x", {2, 2}, "FP32", {1, 2, 3})})), 400);
  check_refused(infer(client(), "echo", inputs({tensor("x", {2, 2}, "FP32", {1, 2, 3, 4, 5})})), 400);
}

TEST_CASE("numbers that do not fit their type are refused, never rounded to infinity", "[values]") {
  check_refused(infer(client(), "echo", inputs({tensor("x", {1}, "INT8", {128})})), 400);
  check_refused(infer(client(), "echo", inputs({tensor("x", {1}, "UINT8", {-1})})), 400);
  check_refused(infer(client(), "echo", inputs({tensor("x", {1}, "FP32", {1e39})})), 400);
  check_refused(infer(client(), "echo", inputs({tensor("x", {1}, "FP16", {70000})})), 400);
  check_refused(infer(client(), "echo", inputs({tensor("x", {1}, "INT32", {1.5})})), 400);
  check_refused(infer(client(), "echo", inputs({tensor("x", {4611686018427387904, 4}, "FP32", {1})})), 400);
  check_refused(infer(client(), "echo", inputs({tensor("x", {-1}, "FP32", {1})})), 400);
  check_refused(infer(client(), "echo", inputs({tensor("x", {1}, "FLOAT", {1})})), 400);
}

TEST_CASE("values that are not finite are strings in the Open Inference Protocol and tokens for SageMaker",
          "[values]") {
  const auto oip = infer(client(), "nan");
  INFO(oip.body);
  CHECK(output(oip, "OUTPUT__0")["data"] == Json({"Infinity", "Infinity"}));
  const auto sagemaker =
      client().send("POST", "/models/nan/invoke", "[1.0, 0.0]", {{"Content-Type", "application/json"}});
  CHECK(sagemaker.body == "[Infinity, NaN]");
}

TEST_CASE("every dtype is echoed as it came", "[values]") {
  const std::vector<std::pair<std::string, Json>> rows{{"BOOL", {true, false}},
                                                       {"UINT8", {0, 255}},
                                                       {"INT8", {-128, 127}},
                                                       {"INT16", {-32768, 32767}},
                                                       {"INT32", {-2147483647 - 1, 2147483647}},
                                                       {"INT64", {-1, 1}},
                                                       {"FP16", {0.5, -2.0}},
                                                       {"BF16", {0.5, -2.0}},
                                                       {"FP32", {0.25, -8.0}},
                                                       {"FP64", {0.1, -1e300}}};
  for (const auto& [type, data] : rows) {
    const auto response = infer(client(), "echo", inputs({tensor("x", {2}, type, data)}));
    INFO(type << " " << response.body);
    CHECK(response.status == 200);
    CHECK(output(response, "OUTPUT__0") == tensor("OUTPUT__0", {2}, type, data));
  }
}

TEST_CASE("arguments of every kind can be filled", "[values]") {
  const auto text = infer(client(), "instr", inputs({tensor("x", {2}, "BYTES", {"a", "b"})}));
  CHECK(output(text, "OUTPUT__0")["data"] == Json({"a!", "b!"}));
  const Json x = tensor("x", {1}, "FP32", {1});
  const Json y = tensor("y", {1}, "FP32", {5});
  CHECK(output(infer(client(), "opt", inputs({x})), "OUTPUT__0")["data"] == Json({1.0}));
  CHECK(output(infer(client(), "opt", inputs({x, y})), "OUTPUT__0")["data"] == Json({6.0}));
  // List[Tensor] and Dict[str, Tensor]: one input an element, in any order.
  const Json list{tensor("xs.1", {1}, "FP32", {2}), tensor("xs.0", {1}, "FP32", {1})};
  CHECK(output(infer(client(), "tlist", inputs(list)), "OUTPUT__0")["data"] == Json({3.0}));
  const Json dict{tensor("xs.b", {1}, "FP32", {2}), tensor("xs.a", {1}, "FP32", {5})};
  CHECK(output(infer(client(), "tdict", inputs(dict)), "OUTPUT__0")["data"] == Json({3.0}));
  // int, float and bool scalars.
  const Json scalars{x, tensor("i", {1}, "INT64", {2}), tensor("f", {1}, "FP64", {0.5}),
                     tensor("b", {1}, "BOOL", {true})};
  CHECK(output(infer(client(), "scalars", inputs(scalars)), "OUTPUT__0")["data"] == Json({-2.5}));
  check_refused(infer(client(), "scalars", inputs({x, tensor("i", {1}, "FP32", {2})})), 400);
}

TEST_CASE("the SageMaker dialect takes a plain JSON array and answers one", "[values]") {
  const auto response = client().send("POST", "/models/echo/invoke", "[[1, 2.5], [3, 4]]",
                                      {{"Content-Type", "application/json; charset=utf-8"}});
  CHECK(response.status == 200);
  CHECK(response.body == "[[1.0, 2.5], [3.0, 4.0]]");
  const auto ragged =
      client().send("POST", "/models/echo/invoke", "[[1], [2, 3]]", {{"Content-Type", "application/json"}});
  CHECK(ragged.status == 400);
  CHECK(ragged.json().value("code", 0) == 400);
  const auto other = client().send("POST", "/models/echo/invoke", "x", {{"Content-Type", "text/html"}});
  CHECK(other.status == 415);
}
