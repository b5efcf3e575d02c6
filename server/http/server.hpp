// The HTTP server as the rest of the program sees it: one listener with its connections.
// Runs no thread of its own: the io_context's threads do all the work.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "server/http/access.hpp"
#include "server/http/body_reader.hpp"
#include "server/http/limits.hpp"
#include "server/http/router.hpp"

namespace mme::server {

struct ServerCounts {
  std::size_t connections = 0;            ///< open now
  std::uint64_t refused_connections = 0;  ///< answered 503 or dropped because there were too many
  std::uint64_t accept_shortages = 0;     ///< times that a connection had to wait for descriptors or memory
};

/// One per listener. Several may share an io_context. All members may be called from any thread.
class Server {
 public:
  /// `sink` and `claim` may be empty. The io_context must outlive every Server on it.
  Server(asio::io_context& io, HttpOptions options, Router router, AccessSink sink, BodyClaim claim = {});

  /// Binds and begins to accept; call once. `address` is an IP address or "localhost", port 0 is any free one.
  /// Returns the port. Errors: invalid_request, conflict.
  Result<std::uint16_t> start(const std::string& address, std::uint16_t port);

  /// Shuts down in stages: what the kernel has accepted is taken in and the listener closes; idle connections close;
  /// running requests end, their replies saying `Connection: close`; after `limit` the rest gets 503 shutting_down;
  /// a second later whatever is left is cut. Done when no connection is left, or three seconds after `limit`.
  asio::awaitable<void> drain(std::chrono::milliseconds limit);

  /// Replaces limits and time-outs: for requests that begin from now on, and for connections not yet accepted. Whether
  /// Host is checked stays as it was at start.
  void set_options(const HttpOptions& options);

  [[nodiscard]] ServerCounts counts() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mme::server
