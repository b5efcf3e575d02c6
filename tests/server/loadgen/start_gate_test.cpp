// Nobody passes the gate alone.
#include "server/loadgen/start_gate.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "tests/support/catch.hpp"

namespace {

namespace asio = boost::asio;

asio::awaitable<void> pass(mme::server::StartGate& gate, int& passed) {
  co_await gate.arrive_and_wait();
  ++passed;
}

}  // namespace

TEST_CASE("nobody passes before the last one has arrived, then everybody does") {
  asio::io_context context;
  mme::server::StartGate gate(context.get_executor(), 3);
  int passed = 0;
  asio::co_spawn(context, pass(gate, passed), asio::detached);
  asio::co_spawn(context, pass(gate, passed), asio::detached);
  context.poll();
  CHECK(passed == 0);
  asio::co_spawn(context, pass(gate, passed), asio::detached);
  context.poll();
  CHECK(passed == 3);
}

TEST_CASE("one alone does not wait") {
  asio::io_context context;
  mme::server::StartGate gate(context.get_executor(), 1);
  int passed = 0;
  asio::co_spawn(context, pass(gate, passed), asio::detached);
  context.poll();
  CHECK(passed == 1);
}
