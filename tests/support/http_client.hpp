// A blocking HTTP client for tests: one keep-alive connection, one request at a time.
// An ordinary client on purpose; hostile framing is raw_http_client's job.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace mme::test {

struct Response {
  unsigned status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  /// First header of that name without regard to case; empty when there is none.
  [[nodiscard]] std::string header(const std::string& name) const;
  /// The body as JSON; a discarded value when it is not JSON.
  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
};

class HttpClient {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  explicit HttpClient(unsigned short port);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;

  /// Sends one request and reads its reply; connects again when the server closed. Throws when the server goes away
  /// without an answer: that is a failed test.
  Response send(const std::string& method, const std::string& target, const std::string& body = "",
                const Headers& headers = {});
  Response get(const std::string& target) { return send("GET", target); }
  Response post(const std::string& target, const nlohmann::json& body) {
    return send("POST", target, body.dump(), {{"Content-Type", "application/json"}});
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mme::test
