// Reads /metrics in a loop.
// A missing metric is an error, not a zero: a watch that sees nothing must not say that all is well.
#include "scripts/demo/memory_watch.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <stdexcept>
#include <utility>

namespace mme::demo {

namespace asio = boost::asio;

MemorySample memory_sample(const server::MetricsText& page) {
  return {page.sum("mme_memory_budget_bytes"), page.sum("mme_memory_bytes"), page.sum("mme_process_anon_bytes"),
          page.sum("mme_process_rss_bytes")};
}

MemoryWatch::MemoryWatch(server::ClientConnection& connection, OnPage on_page)
    : connection_(connection), on_page_(std::move(on_page)) {}

asio::awaitable<server::MetricsText> MemoryWatch::read() {
  const server::ClientRequest request{"GET", "/metrics", "", ""};
  const auto reply = co_await connection_.send(request);
  if (!reply || reply->status != 200) throw std::runtime_error("the server gave no metrics");
  server::MetricsText page(reply->body);
  if (!page.has("mme_memory_bytes") || !page.has("mme_memory_budget_bytes")) {
    throw std::runtime_error("the server's metrics say nothing of memory");
  }
  const MemorySample sample = memory_sample(page);
  worst_.budget = std::max(worst_.budget, sample.budget);
  worst_.charged = std::max(worst_.charged, sample.charged);
  worst_.anonymous = std::max(worst_.anonymous, sample.anonymous);
  worst_.resident = std::max(worst_.resident, sample.resident);
  exceeded_ = exceeded_ || sample.charged > sample.budget;
  ++pages_;
  on_page_(page);
  co_return page;
}

asio::awaitable<void> MemoryWatch::watch(std::chrono::milliseconds period) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (!stopped_) {
    co_await read();
    timer.expires_after(period);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

}  // namespace mme::demo
