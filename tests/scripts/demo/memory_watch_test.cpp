// The watch over a server's memory, against canned pages.
#include "scripts/demo/memory_watch.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using mme::demo::MemoryWatch;

std::string page(int weights, int loading, int budget) {
  return "mme_memory_bytes{kind=\"weights\"} " + std::to_string(weights) + "\nmme_memory_bytes{kind=\"loading\"} " +
         std::to_string(loading) + "\nmme_memory_budget_bytes " + std::to_string(budget) +
         "\nmme_process_anon_bytes 5\nmme_process_rss_bytes 9\n";
}

/// Answers the n-th request of its one connection with the n-th page.
asio::awaitable<void> serve(tcp::acceptor& acceptor, std::vector<std::string> pages) {
  tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
  std::string request;
  for (const std::string& body : pages) {
    const std::size_t size =
        co_await asio::async_read_until(socket, asio::dynamic_buffer(request), "\r\n\r\n", asio::use_awaitable);
    request.erase(0, size);
    const std::string reply = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    co_await asio::async_write(socket, asio::buffer(reply), asio::use_awaitable);
  }
}

asio::awaitable<void> read_all(MemoryWatch& watch, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) co_await watch.read();
}

struct Watched {
  mme::demo::MemorySample worst;
  bool exceeded = false;
  unsigned heard = 0;
};

Watched watch_pages(const std::vector<std::string>& pages) {
  asio::io_context context(1);
  tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  mme::server::ClientConnection connection(context.get_executor(), acceptor.local_endpoint(), std::chrono::seconds(5));
  Watched watched;
  MemoryWatch watch(connection, [&](const mme::server::MetricsText&) { ++watched.heard; });
  std::exception_ptr broke;
  asio::co_spawn(context, serve(acceptor, pages), asio::detached);
  asio::co_spawn(context, read_all(watch, pages.size()), [&](std::exception_ptr problem) { broke = problem; });
  context.run_for(std::chrono::seconds(10));
  if (broke) std::rethrow_exception(broke);
  watched.worst = watch.worst();
  watched.exceeded = watch.exceeded();
  return watched;
}

}  // namespace

TEST_CASE("the worst of all pages is kept, and the kinds are summed") {
  const Watched watched = watch_pages({page(10, 20, 100), page(40, 50, 100), page(1, 2, 100)});
  CHECK(watched.worst.charged == 90);
  CHECK(watched.worst.budget == 100);
  CHECK(watched.worst.anonymous == 5);
  CHECK(watched.worst.resident == 9);
  CHECK(watched.heard == 3);
  CHECK_FALSE(watched.exceeded);
}

TEST_CASE("one page above the budget is remembered") {
  CHECK(watch_pages({page(10, 20, 100), page(60, 41, 100), page(1, 2, 100)}).exceeded);
}

TEST_CASE("a page without memory metrics is an error, not a zero") {
  CHECK_THROWS_AS(watch_pages({"mme_memory_budget_bytes 100\n"}), std::runtime_error);
  CHECK_THROWS_AS(watch_pages({"nothing"}), std::runtime_error);
}
