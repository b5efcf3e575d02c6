// A server on loopback with a small dialect of its own, for the socket tests.
// No models: its handlers echo, wait, throw and answer much.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/http/server.hpp"
#include "tests/support/raw_http_client.hpp"

namespace mme::test {

/// What the handlers of the fixture saw.
struct Seen {
  std::atomic<int> handled{0};
  std::atomic<int> cancelled{0};
  std::atomic<int> finished{0};  ///< slow ones that ran to their end
};

/// GET /ping, POST /echo/{name}, GET /echo/{name}, POST /slow?ms=, GET /big?bytes=, GET /throw, GET /fail,
/// GET /deadline, and the admin routes DELETE /things/{name} and GET /secret.
std::shared_ptr<server::Dialect> make_test_dialect(std::shared_ptr<Seen> seen);

struct FixtureOptions {
  server::HttpOptions http;
  server::RouterOptions router;
  server::BodyClaim claim;
  int threads = 1;
  std::string address = "127.0.0.1";
};

/// Longest wait for what must happen: half a minute, or MME_TEST_PATIENCE_S where a test is expected to fail.
std::chrono::milliseconds patience();

class HttpFixture {
 public:
  explicit HttpFixture(FixtureOptions options = {});
  ~HttpFixture();
  HttpFixture(const HttpFixture&) = delete;
  HttpFixture& operator=(const HttpFixture&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] RawHttpClient client(std::chrono::milliseconds limit = patience()) const {
    return RawHttpClient(port_, limit);
  }
  [[nodiscard]] server::Server& server() noexcept { return *server_; }
  [[nodiscard]] Seen& seen() noexcept { return *seen_; }
  [[nodiscard]] std::vector<server::AccessLine> lines() const;
  /// Drains in the background; the returned flag becomes true at its end.
  std::shared_ptr<std::atomic<bool>> drain(std::chrono::milliseconds limit);

 private:
  boost::asio::io_context io_;
  std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
  mutable std::mutex mutex_;
  std::vector<server::AccessLine> lines_;
  std::optional<server::Server> server_;
  std::uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

extern const std::string kPingRequest;
/// Whole requests to localhost; `more`: further header lines, each with its line end.
std::string get_request(const std::string& target, const std::string& more = "");
std::string post_request(const std::string& target, const std::string& body, const std::string& more = "");

/// True as soon as `condition` is; false after patience().
bool eventually(const std::function<bool()>& condition);

}  // namespace mme::test
