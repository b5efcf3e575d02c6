// Reads /metrics ten times a second while a load runs, and keeps the worst it saw.
// It judges only one thing: whether the charged bytes ever exceeded the budget.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "server/loadgen/client_connection.hpp"
#include "server/loadgen/metrics_text.hpp"

namespace mme::demo {

struct MemorySample {
  double budget = 0;     ///< bytes, all of them
  double charged = 0;    ///< the sum over all kinds
  double anonymous = 0;  ///< of the process
  double resident = 0;   ///< of the process
};

[[nodiscard]] MemorySample memory_sample(const server::MetricsText& page);

/// Used on one thread. The callback hears of every page that was read.
class MemoryWatch {
 public:
  using OnPage = std::function<void(const server::MetricsText&)>;
  MemoryWatch(server::ClientConnection& connection, OnPage on_page);

  /// Reads one page; throws std::runtime_error when there is none or it lacks the memory metrics.
  boost::asio::awaitable<server::MetricsText> read();
  /// Reads until stop(); a page that cannot be read ends it with an exception.
  boost::asio::awaitable<void> watch(std::chrono::milliseconds period);
  void stop() { stopped_ = true; }

  [[nodiscard]] const MemorySample& worst() const { return worst_; }  ///< each field's largest value
  [[nodiscard]] bool exceeded() const { return exceeded_; }
  [[nodiscard]] unsigned pages() const { return pages_; }

 private:
  server::ClientConnection& connection_;
  OnPage on_page_;
  MemorySample worst_;
  bool exceeded_ = false;
  bool stopped_ = false;
  unsigned pages_ = 0;
};

}  // namespace mme::demo
