// What one HTTP listener allows: sizes, counts and time-outs, with their defaults.
// Plain data; reading it from settings is server/config's business.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>

namespace mme::server {

struct HttpLimits {
  std::size_t body = std::size_t{64} << 20;       ///< bytes of a request body after chunks are taken apart
  std::size_t response = std::size_t{256} << 20;  ///< bytes of a reply body
  std::size_t headers = 8192;                     ///< bytes of all header lines of a request, the blank one included
  std::size_t header_count = 100;                 ///< header lines of a request
  std::size_t target = 4096;                      ///< bytes of the request target
  std::size_t connections = 4096;                 ///< open at once on one listener; more get 503
  std::size_t uncharged = std::size_t{64} << 10;  ///< bodies up to this size are not held against the budget
};

struct HttpTimeouts {
  std::chrono::milliseconds header{10'000};      ///< from the first byte of a request to its last header
  std::chrono::milliseconds body_idle{30'000};   ///< without a byte of a body that is due
  std::chrono::milliseconds write_idle{30'000};  ///< for each 64 KiB of a reply
  std::chrono::milliseconds request{60'000};     ///< from the headers to the answer; also bounds reading the body
  std::chrono::milliseconds keep_alive{75'000};  ///< between two requests
  std::chrono::milliseconds drain{24'000};       ///< for running requests at shutdown
};

struct HttpOptions {
  HttpLimits limits;
  HttpTimeouts timeouts;
  /// On a loopback address, refuse a Host that is not loopback (403): a page in a browser that resolves its own name
  /// to 127.0.0.1 must not reach us.
  bool check_loopback_host = true;
};

/// Options that may be replaced while connections read them. Thread-safe; a reader keeps what it got as long as it
/// likes.
class SharedHttpOptions {
 public:
  explicit SharedHttpOptions(HttpOptions options) { set(options); }

  [[nodiscard]] std::shared_ptr<const HttpOptions> get() const {
    const std::lock_guard lock(mutex_);
    return options_;
  }
  void set(const HttpOptions& options) {
    auto made = std::make_shared<const HttpOptions>(options);
    const std::lock_guard lock(mutex_);
    options_.swap(made);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const HttpOptions> options_;
};

}  // namespace mme::server
