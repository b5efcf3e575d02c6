// Clients as coroutines on one executor, released together.
// All state of a run lives in one object that every client holds; nothing here is synchronised.
#include "server/loadgen/load_generator.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

#include "server/loadgen/client_connection.hpp"
#include "server/loadgen/start_gate.hpp"
#include "server/loadgen/target_picker.hpp"

namespace mme::server {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kPauseToken = asio::as_tuple(asio::use_awaitable);
constexpr unsigned kGiveUpAfter = 20;
constexpr auto kPauseAfterFailure = std::chrono::milliseconds(20);

struct Run {
  Run(LoadPlan with, const asio::any_io_executor& executor)
      : plan(std::move(with)),
        start(executor, plan.clients),
        done(executor, Clock::time_point::max()),
        clients_left(plan.clients) {
    for (const LoadTarget& target : plan.targets) {
      weights.push_back(target.weight);
      report.targets.emplace_back().name = target.name;
    }
  }

  /// Takes the right to send one more request.
  bool take_turn() {
    if (plan.requests && sent >= *plan.requests) return false;
    if (plan.duration && Clock::now() >= start.released() + *plan.duration) return false;
    ++sent;
    return true;
  }
  void leave() {
    report.elapsed = Clock::now() - start.released();
    if (--clients_left == 0) done.cancel();
  }

  LoadPlan plan;
  std::vector<double> weights;
  LoadReport report;
  StartGate start;
  asio::steady_timer done;  ///< cancelled by the last client that leaves
  unsigned clients_left;
  std::uint64_t sent = 0;
  std::exception_ptr broke;  ///< what a target's check threw
};

/// Sends one request and counts how it ended. False when there was no answer.
asio::awaitable<bool> one_request(Run& run, ClientConnection& connection, std::size_t index) {
  const LoadTarget& target = run.plan.targets[index];
  const Clock::time_point from = Clock::now();
  const ClientRequest request{target.method, target.path, target.content_type, target.body};
  const boost::system::result<ClientReply> reply = co_await connection.send(request);
  const Clock::duration took = Clock::now() - from;
  TargetReport& report = run.report.targets[index];
  if (!reply) {
    report.add(Outcome::no_answer, "no answer: " + reply.error().message(), took);
    co_return false;
  }
  const bool right = reply->status / 100 != 2 || !target.is_right || target.is_right(reply->body);
  const Outcome outcome = classify(reply->status, reply->reason, right);
  std::string what = std::to_string(reply->status);
  if (!reply->reason.empty()) what += " " + reply->reason;
  report.add(outcome, outcome == Outcome::wrong ? "wrong answer" : what, took);
  co_return true;
}

asio::awaitable<void> client_loop(Run& run, unsigned number) {
  const auto executor = co_await asio::this_coro::executor;
  ClientConnection connection(executor, run.plan.server, run.plan.timeout);
  TargetPicker picker(run.weights, run.plan.seed * 1'000'003 + number);
  // Connecting comes before the start; a failure shows again, and is counted, at the first request.
  co_await connection.connect();
  co_await run.start.arrive_and_wait();
  unsigned failures = 0;
  while (failures < kGiveUpAfter && run.take_turn()) {
    const bool answered = co_await one_request(run, connection, picker.next());
    failures = answered ? 0 : failures + 1;
    if (answered) continue;
    asio::steady_timer pause(executor, kPauseAfterFailure);
    co_await pause.async_wait(kPauseToken);
  }
}

void check(const LoadPlan& plan) {
  if (plan.targets.empty()) throw std::invalid_argument("a load plan needs targets");
  if (plan.clients == 0) throw std::invalid_argument("a load plan needs clients");
  if (!plan.duration && !plan.requests) throw std::invalid_argument("a load plan needs an end");
}

}  // namespace

asio::awaitable<LoadReport> generate_load(LoadPlan plan) {
  check(plan);
  const auto executor = co_await asio::this_coro::executor;
  const auto run = std::make_shared<Run>(std::move(plan), executor);
  for (unsigned number = 0; number < run->plan.clients; ++number) {
    asio::co_spawn(executor, client_loop(*run, number), [run](std::exception_ptr broke) {
      if (broke) run->broke = broke;
      run->leave();
    });
  }
  if (run->clients_left != 0) co_await run->done.async_wait(kPauseToken);
  if (run->broke) std::rethrow_exception(run->broke);
  co_return std::move(run->report);
}

LoadReport run_load(LoadPlan plan) {
  asio::io_context context(1);
  LoadReport report;
  std::exception_ptr broke;
  asio::co_spawn(context, generate_load(std::move(plan)), [&](std::exception_ptr problem, LoadReport made) {
    broke = problem;
    report = std::move(made);
  });
  context.run();
  if (broke) std::rethrow_exception(broke);
  return report;
}

}  // namespace mme::server
