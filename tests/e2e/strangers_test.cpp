// Two clients who must never learn anything of each other, however wrong their requests are.
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "tests/e2e/oip.hpp"
#include "tests/e2e/scenario.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/raw_http_client.hpp"
#include "tests/support/together.hpp"

using namespace mme::test;

namespace {

std::string post(const std::string& target, const std::string& mark, const std::string& body,
                 const std::string& more = "") {
  return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + mark + "\r\nX-Custom: " + mark + "\r\n" +
         more + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string get(const std::string& target, const std::string& mark, const std::string& more = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + mark + "\r\n" + more + "\r\n";
}

/// {"inputs":[...]} with the client's word wherever a word may stand.
std::string tensor_text(const std::string& name, const std::string& shape, const std::string& type,
                        const std::string& data) {
  return "{\"inputs\":[{\"name\":\"" + name + "\",\"shape\":" + shape + ",\"datatype\":\"" + type +
         "\",\"data\":" + data + "}]}";
}

/// Requests of all kinds, most of them wrong; each holds the mark. What keeps the connection comes first.
std::vector<std::string> requests(const std::string& mark) {
  const std::string infer = "/v2/models/m/infer";
  const std::string word = "\"" + mark + "\"";
  const std::string many = "[" + word + "," + word + "," + word + "," + word + "]";
  return {
      post(infer, mark, tensor_text("x", "[4]", "BYTES", many)),
      post(infer, mark, tensor_text("x", "[3]", "BYTES", many)),  // longer than its shape
      post(infer, mark, tensor_text("x", "[5]", "BYTES", many)),  // shorter
      post(infer, mark, tensor_text("x", "[2,9999]", "BYTES", many)),
      post(infer, mark, tensor_text("x", "[-1]", "BYTES", many)),
      post(infer, mark, tensor_text("x", "[4]", "FP32", many)),
      post(infer, mark, tensor_text("x", "[4]", mark, many)),
      post(infer, mark, tensor_text(mark, "[4]", "BYTES", many)),
      post(infer, mark, tensor_text("x", "[0]", "BYTES", "[]")),
      post(infer, mark, "{" + word + ":1"),
      post(infer, mark, "{" + word + ":1," + word + ":2}"),
      post(infer, mark, mark),
      post(infer, mark, tensor_text("x", "[1]", "BYTES", "[" + word + "]") + mark),
      post(infer, mark, "{\"id\":" + word + "," + tensor_text("x", "[2]", "FP32", "[1,2]").substr(1)),
      post(infer, mark, "{\"outputs\":[{\"name\":" + word + "}]," + tensor_text("x", "[2]", "FP32", "[1,2]").substr(1)),
      post("/v2/models/" + mark + "/infer", mark, tensor_text("x", "[2]", "FP32", "[1,2]")),
      post("/v2/models/m/versions/" + mark + "/infer", mark, tensor_text("x", "[2]", "FP32", "[1,2]")),
      post("/models/" + mark + "/invoke", mark, "[1]"),
      post("/models/m/invoke", mark, "[" + word + ",1]"),
      post("/models/m/invoke", mark, "[1,2]", "Content-Type: text/" + mark + "\r\n"),
      post("/models/m/invoke", mark, "[1,2]", "Accept: text/" + mark + "\r\n"),
      post("/models/boom/invoke", mark, "[1,2]"),
      post("/models/trunc/invoke", mark, "[1,2]"),
      post("/invocations?model_name=" + mark, mark, "[1]"),
      post("/invocations", mark, "[1]", "X-Amzn-SageMaker-Target-Model: " + mark + ".tar.gz\r\n"),
      post("/models", mark, "{\"model_name\":" + word + ",\"url\":\"/" + mark + "\"}"),
      post("/models", mark, "{\"model_name\":" + word + "}"),
      post("/" + mark, mark, word),
      post("/ping", mark, word),
      get("/models/" + mark, mark),
      get("/models?next_page_token=" + mark, mark),
      get("/v2/models/" + mark + "%zz", mark),
      get("/ping?" + mark + "=%00", mark),
      get("/ping", mark, "X-Request-Timeout-Ms: " + mark + "\r\n"),
      get("/ping", mark, "Host: " + mark + "\r\n"),
      post(infer, mark, word, "Content-Encoding: " + mark + "\r\n"),
      post(infer, mark, word, "Transfer-Encoding: " + mark + "\r\n"),
      post(infer, mark, word, "Expect: " + mark + "\r\n"),
      "POST " + infer + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz" + mark + "\r\n\r\n",
      mark + " / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      get("http://" + mark + "/ping", mark),
      get("/" + mark + std::string(5000, 'a'), mark),
      get("/ping", mark, "X: " + mark + std::string(9000, 'a') + "\r\n"),
      mark + "\r\n\r\n",
  };
}

}  // namespace

TEST_CASE("E4: no byte of one client is ever in an answer to another, whatever both send", "[strangers]") {
  TempDir repository;
  install(repository.path(), {{"m", "echo"}, {"boom", "boom"}, {"trunc", "trunc"}});
  ServerProcess server(repository.path(), {"--set", "threads.compute=2"});
  const std::vector<std::string> marks{"alfa-7f3a91", "omega-c0de55"};
  std::atomic<int> answers{0};
  std::atomic<int> refused{0};
  std::atomic<int> own{0};
  std::mutex mutex;
  std::vector<std::string> crossed;
  together(6, [&](int number) {
    const auto& mine = marks[static_cast<std::size_t>(number) % 2];
    const auto& other = marks[static_cast<std::size_t>(number + 1) % 2];
    const auto all = requests(mine);
    std::optional<RawHttpClient> client;
    for (int i = 0; i < rounds(12, 400) * static_cast<int>(all.size()); ++i) {
      const auto& bytes = all[static_cast<std::size_t>(i + number) % all.size()];
      if (!client) client.emplace(server.port());
      client->send(bytes);
      const auto reply = client->read();
      if (!reply) {
        const std::lock_guard lock(mutex);
        crossed.push_back("no answer to " + bytes.substr(0, 80));
        client.reset();
        continue;
      }
      ++answers;
      refused += reply->status >= 400 ? 1 : 0;
      std::string text = reply->body;
      for (const auto& [name, value] : reply->headers) text += "\n" + value;
      own += text.find(mine) != std::string::npos ? 1 : 0;
      if (text.find(other) != std::string::npos || !client->rest().empty()) {
        const std::lock_guard lock(mutex);
        crossed.push_back(bytes.substr(0, 80) + " -> " + text.substr(0, 300) + client->rest().substr(0, 100));
      }
      if (reply->header("Connection") == "close") client.reset();
    }
  });
  for (const auto& one : crossed) UNSCOPED_INFO(one);
  CHECK(crossed.empty());
  CHECK(own > answers / 2);  // the marks do come back, to their owner
  CHECK(refused > answers / 2);
  CHECK(server.terminate() == 0);
}
