// A closed-loop load generator: clients that each send their next request when the last one is answered.
// It offers no fixed rate and prints nothing.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/loadgen/load_report.hpp"

namespace mme::server {

struct LoadTarget {
  std::string name;  ///< for the report
  std::string method = "POST";
  std::string path;
  std::string content_type = "application/json";
  std::string body;
  double weight = 1;
  /// Whether a 2xx body is right; empty: every one is.
  std::function<bool(std::string_view body)> is_right;
};

struct LoadPlan {
  boost::asio::ip::tcp::endpoint server;
  std::vector<LoadTarget> targets;  ///< not empty
  unsigned clients = 1;
  /// The run ends at whichever comes first; at least one must be given. Running requests are always awaited.
  std::optional<std::chrono::nanoseconds> duration;
  std::optional<std::uint64_t> requests;                        ///< of all clients together
  std::chrono::nanoseconds timeout = std::chrono::seconds(70);  ///< of one request; then it has no answer
  std::uint64_t seed = 1;
};

/// Opens a connection per client, lets all of them start at one instant, and returns when the last one is done.
/// Runs on the caller's executor, which must run one handler at a time (one thread, or a strand).
/// A client that cannot connect counts each try as no_answer and gives up after 20 in a row.
[[nodiscard]] boost::asio::awaitable<LoadReport> generate_load(LoadPlan plan);

/// The same, blocking, on the calling thread.
[[nodiscard]] LoadReport run_load(LoadPlan plan);

}  // namespace mme::server
