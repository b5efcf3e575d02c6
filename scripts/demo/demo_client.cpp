// demo_client MANIFEST --port P [--seconds S] [--clients N]: calls the example models with a skewed load, then says
// what the server did. Exit 1 when an answer was wrong, a failure undeclared, or the charged memory above the budget.
#include <simdjson.h>

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <exception>
#include <iostream>
#include <set>
#include <stdexcept>

#include "scripts/demo/demo_manifest.hpp"
#include "scripts/demo/demo_table.hpp"
#include "scripts/demo/memory_watch.hpp"
#include "server/loadgen/load_generator.hpp"
#include "server/loadgen/target_picker.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using mme::demo::DemoModel;
using mme::server::LoadReport;
using mme::server::MetricsText;

constexpr double kSkew = 0.9;
constexpr auto kLookEvery = 100ms;
constexpr auto kSpeakEvery = 3s;

struct Options {
  std::string manifest;
  std::uint16_t port = 0;
  double seconds = 15;
  unsigned clients = 8;
};

mme::server::LoadPlan make_plan(const Options& options, const std::vector<DemoModel>& models) {
  mme::server::LoadPlan plan;
  plan.server = {asio::ip::address_v4::loopback(), options.port};
  plan.clients = options.clients;
  plan.duration = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options.seconds));
  const std::vector<double> weights = mme::server::zipf_weights(models.size(), kSkew);
  for (std::size_t i = 0; i < models.size(); ++i) {
    mme::server::LoadTarget target;
    target.name = models[i].name;
    target.path = "/v2/models/" + models[i].name + "/infer";
    target.body = models[i].request;
    target.weight = weights[i];
    target.is_right = [answers = models[i].answers](std::string_view body) {
      return mme::demo::is_right(body, answers);
    };
    plan.targets.push_back(std::move(target));
  }
  return plan;
}

/// Prints a line of progress now and then.
class Progress {
 public:
  void operator()(const MetricsText& page) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + kSpeakEvery;
    const double calls =
        page.sum("mme_cache_hits_total") + page.sum("mme_cache_misses_total") + page.sum("mme_cache_joined_total");
    const mme::demo::MemorySample memory = mme::demo::memory_sample(page);
    std::cout << "  " << std::llround(calls) << " calls, " << std::llround(page.sum("mme_model_loads_total"))
              << " loads, " << std::llround(page.sum("mme_cache_evictions_total")) << " evictions; memory "
              << mme::demo::human_bytes(memory.charged) << " of " << mme::demo::human_bytes(memory.budget) << std::endl;
  }

 private:
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kSpeakEvery;
};

struct Findings {
  LoadReport load;
  MetricsText page{""};             ///< after the load
  std::set<std::string> in_memory;  ///< after the load
  mme::demo::MemorySample before;   ///< before the load
  mme::demo::MemorySample worst;
  bool exceeded = false;
  unsigned pages = 0;
};

/// The models that /status shows as ready.
asio::awaitable<std::set<std::string>> ready_models(mme::server::ClientConnection& connection) {
  const mme::server::ClientRequest request{"GET", "/status", "", ""};
  const auto reply = co_await connection.send(request);
  if (!reply || reply->status != 200) throw std::runtime_error("the server gave no status");
  simdjson::dom::parser parser;
  std::set<std::string> names;
  for (const simdjson::dom::element model : parser.parse(reply->body)["models"].get_array()) {
    if (std::string_view(model["state"]) == "ready") names.insert(std::string(std::string_view(model["name"])));
  }
  co_return names;
}

/// Runs the load while the watch looks on; returns or throws only when both have ended.
asio::awaitable<LoadReport> watched_load(mme::server::LoadPlan plan, mme::demo::MemoryWatch& watch) {
  const auto executor = co_await asio::this_coro::executor;
  std::exception_ptr broke;
  bool watching = true;
  asio::co_spawn(executor, watch.watch(kLookEvery), [&](std::exception_ptr problem) {
    if (problem) broke = problem;
    watching = false;
  });
  LoadReport report;
  try {
    report = co_await mme::server::generate_load(std::move(plan));
  } catch (...) {
    broke = std::current_exception();
  }
  watch.stop();
  asio::steady_timer pause(executor);
  while (watching) {
    pause.expires_after(10ms);
    co_await pause.async_wait(asio::use_awaitable);
  }
  if (broke) std::rethrow_exception(broke);
  co_return report;
}

asio::awaitable<Findings> find_out(mme::server::LoadPlan plan) {
  mme::server::ClientConnection connection(co_await asio::this_coro::executor, plan.server, 10s);
  mme::demo::MemoryWatch watch(connection, Progress());
  Findings findings;
  findings.before = mme::demo::memory_sample(co_await watch.read());
  findings.load = co_await watched_load(std::move(plan), watch);
  findings.page = co_await watch.read();
  findings.in_memory = co_await ready_models(connection);
  findings.worst = watch.worst();
  findings.exceeded = watch.exceeded();
  findings.pages = watch.pages();
  co_return findings;
}

Findings run(mme::server::LoadPlan plan) {
  asio::io_context context(1);
  Findings findings;
  std::exception_ptr broke;
  asio::co_spawn(context, find_out(std::move(plan)), [&](std::exception_ptr problem, Findings found) {
    broke = problem;
    findings = std::move(found);
  });
  context.run();
  if (broke) std::rethrow_exception(broke);
  return findings;
}

std::vector<mme::demo::ModelRow> make_rows(const std::vector<DemoModel>& models, const Findings& findings) {
  std::vector<mme::demo::ModelRow> rows;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const auto counter = [&](const char* name) {
      return static_cast<std::uint64_t>(findings.page.sum(name, {{"model", models[i].name}}));
    };
    mme::demo::ModelRow row;
    row.about = models[i].about;
    row.file_bytes = models[i].file_bytes;
    row.load = findings.load.targets[i];
    row.loads = counter("mme_model_loads_total");
    row.hits = counter("mme_cache_hits_total");
    // Evictions are counted by reason; a model's own are the loads that are not in memory any more.
    const std::uint64_t present = findings.in_memory.contains(models[i].name) ? 1 : 0;
    row.evictions = row.loads > present ? row.loads - present : 0;
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Prints everything; true when the server did its job.
bool report(const std::vector<DemoModel>& models, const Findings& findings) {
  const std::vector<mme::demo::ModelRow> rows = make_rows(models, findings);
  double bytes = 0;
  for (const DemoModel& model : models) bytes += static_cast<double>(model.file_bytes);
  std::cout << "\n";
  mme::demo::print_table(std::cout, rows);
  std::cout << "\n";
  mme::demo::print_memory(std::cout, bytes, findings.before, findings.worst, findings.pages);
  const mme::server::TargetReport total = findings.load.total();
  if (total.ok != total.requests) {
    std::cout << "\nRequests that did not end well:\n";
    mme::demo::print_failures(std::cout, rows);
  }
  std::cout << "\n";
  if (total.ok == 0) std::cout << "WRONG: not one request was answered.\n";
  if (total.defects() != 0)
    std::cout << "WRONG: " << total.defects() << " answers were wrong, undeclared or missing.\n";
  if (findings.exceeded) std::cout << "WRONG: the charged memory exceeded the budget.\n";
  const bool good = total.ok != 0 && total.defects() == 0 && !findings.exceeded;
  if (good) {
    std::cout << "All " << total.ok << " answers were right"
              << (total.refused != 0 ? ", every other request was refused by name" : "") << ", and the budget held.\n";
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Calls the example models with a skewed load and says what the server did."};
  app.add_option("manifest", options.manifest, "what make_example_models wrote about the models")->required();
  app.add_option("--port", options.port, "port of the server on loopback")->required();
  app.add_option("--seconds", options.seconds, "how long")->check(CLI::Range(0.1, 3600.0));
  app.add_option("--clients", options.clients, "connections at once")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    const std::vector<DemoModel> models = mme::demo::read_manifest_file(options.manifest);
    return report(models, run(make_plan(options, models))) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "demo_client: " << error.what() << "\n";
    return 1;
  }
}
