// incident_1, incident_2: the handlers that died, and the server, on the same model and the same requests.
#include "tests/bench/bench_client.hpp"
#include "tests/bench/incident_models.hpp"
#include "tests/bench/naive_handlers.hpp"
#include "tests/bench/process_watch.hpp"
#include "tests/bench/unique_weights.hpp"

namespace mme::bench {
namespace {

using test::ServerProcess;
using test::TempDir;

/// A handler that takes more is ended: what it would have come to is known from the incidents.
constexpr std::size_t kCap = std::size_t{6} << 30;
constexpr int kTurns = 3;  // of the bare loop and a server, in turn

/// One column of the table. Memory in bytes beyond the process's base; 0 and empty: not measured.
struct Column {
  double one_load = 0;
  double peak = 0;
  double first = 0;
  double answer = 0;
  int loads = 0;
  bool stopped = false;
  Samples p95;
};

void add_latencies(Column& column, const Samples& run) {
  column.p95.add(run.at(0.95));
}

Column replay(const std::string& when, int incident, const std::filesystem::path& file, int requests) {
  Column column;
  HandlerProcess handler(when.c_str(), incident, file, kCap);
  const std::size_t base = test::proportional_bytes(handler.pid());
  const auto first = handler.first();
  column.first = first.milliseconds;
  column.answer = first.answer;
  {
    ProcessWatch watch(handler.pid());
    handler.first();
    column.one_load = static_cast<double>(watch.stop() - base);
  }
  ProcessWatch watch(handler.pid(), kCap + base);
  const HandlerRun run = handler.run(requests);
  column.peak = static_cast<double>(watch.stop() - base);
  column.stopped = run.stopped;
  column.loads = when == kLoadWorker ? kWorkers : run.answered;
  if (run.answered > 0) add_latencies(column, run.milliseconds);
  return column;
}

/// The server with its model, one request at a time known to be right.
class Ours {
 public:
  Ours(const std::filesystem::path& folder, int incident, const std::string& compute_threads)
      : body_(incident_body(incident)),
        server_(folder, test::set({"cache.memory_budget=2GiB", "threads.compute=" + compute_threads})) {
    // So many that each thread has had some.
    spread(server_, kWorkers, 50 * kWorkers,
           [](test::HttpClient& client, int) { must_answer(client, "toucher", row_of(1)); });
    auto client = server_.client();
    test::unload(client, "toucher");
    std::this_thread::sleep_for(300ms);
    base_ = test::proportional_bytes(server_.pid());
  }

  void first(Column& column) {
    auto client = server_.client();
    column.first = milliseconds_of([&] { column.answer = first_number(must_answer(client, "model", body_)); });
    test::unload(client, "model");
    loads_before_ = test::loads_of(server_, "model");
    ProcessWatch watch(server_.pid());
    must_answer(client, "model", body_);
    std::this_thread::sleep_for(50ms);
    column.one_load = beyond_base(watch.stop());
  }
  Samples run(int requests) const {
    Samples all;
    std::mutex mutex;
    spread(server_, kWorkers, requests, [&](test::HttpClient& client, int) {
      const double took = milliseconds_of([&] { must_answer(client, "model", body_); });
      const std::lock_guard lock(mutex);
      all.add(took);
    });
    return all;
  }
  void peak(Column& column, int requests) const {
    ProcessWatch watch(server_.pid());
    run(requests);
    column.peak = beyond_base(watch.stop());
    column.loads = static_cast<int>(test::loads_of(server_, "model") - loads_before_);
  }

 private:
  [[nodiscard]] double beyond_base(std::size_t bytes) const {
    return bytes > base_ ? static_cast<double>(bytes - base_) : 0;
  }
  std::string body_;
  ServerProcess server_;
  std::size_t base_ = 0;
  double loads_before_ = 0;
};

using Columns = std::vector<std::pair<std::string, Column>>;

void line(const char* what, const Columns& columns, const std::function<std::string(const Column&)>& text) {
  std::printf("  %-34s", what);
  for (const auto& [name, column] : columns) std::printf(" %22s", text(column).c_str());
  std::printf("\n");
}

std::string number(double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.0f %s", value, unit);
  return value == 0 ? "-" : text;
}

std::string peak_text(const Column& column) {
  return (column.stopped ? "stopped at " : "") + number(column.peak / kMegabyte, "MB");
}

void print_table(const std::string& head, const Columns& columns) {
  std::printf("%s\n  %-34s", head.c_str(), "");
  for (const auto& [name, column] : columns) std::printf(" %22s", name.c_str());
  std::printf("\n");
  line("memory of one load and call", columns, [](const Column& c) { return number(c.one_load / kMegabyte, "MB"); });
  line("peak with 4 workers or clients", columns, peak_text);
  line("P95", columns, [](const Column& c) { return c.p95.empty() ? "-" : number(c.p95.median(), "ms"); });
  line("first request, file in page cache", columns, [](const Column& c) { return number(c.first, "ms"); });
  line("loads", columns, [](const Column& c) { return number(c.loads, ""); });
}

struct Incident {
  int number;
  void (*save)(const std::filesystem::path&);
  std::vector<std::pair<std::string, const char*>> handlers;  ///< head of the column, when it loads
  int naive_requests;
  int requests;
};

/// Memory is that of the server with as many compute threads as the handlers had workers.
void ratios(const std::string& name, double limit, const Column& bare, const Column& ours, const Column& crowded) {
  print_row(name + ": memory", "MB", limit / kMegabyte, single(crowded.peak / kMegabyte), 1.05 * limit / kMegabyte,
            "<= 1.05 x");
  print_row(name + ": P95 against a bare loop", "ms", bare.p95.median(), ours.p95, bare.p95.median(), "<= 1 x");
  print_row(name + ": P95, 4 compute threads", "ms", bare.p95.median(), crowded.p95, 0, "-");
}

void replay_incident(const Incident& incident) {
  const TempDir folder;
  const auto file = folder.path() / "model.pt";
  incident.save(file);
  save_toucher(folder.path() / "toucher.pt");
  const std::string name = "incident_" + std::to_string(incident.number);
  Columns columns;
  for (const auto& [head, when] : incident.handlers) {
    columns.emplace_back(head, replay(when, incident.number, file, incident.naive_requests));
  }
  HandlerProcess loop(kLoadOnce, incident.number, file, kCap);
  Column bare;
  bare.first = loop.first().milliseconds;
  const double activations = static_cast<double>(loop.activations());
  const auto serve = [&](const std::string& compute_threads) {
    Ours server(folder.path(), incident.number, compute_threads);
    Column column;
    server.first(column);
    for (int turn = 0; turn < kTurns; ++turn) {
      add_latencies(bare, loop.run(incident.requests).milliseconds);
      add_latencies(column, server.run(incident.requests));
    }
    server.peak(column, incident.requests);
    return column;
  };
  // One after the other: of pages that two have mapped, each would be charged half.
  const Column ours = serve("auto");
  const Column crowded = serve(std::to_string(kWorkers));
  columns.emplace_back("ours, a thread a core", ours);
  columns.emplace_back("ours, 4 threads", crowded);
  columns.emplace_back("bare loop", bare);
  for (const auto& [head, column] : columns) {
    if (column.answer != 0 && !close_to(column.answer, ours.answer))
      std::printf("  %s answers otherwise\n", head.c_str());
  }
  const double weights = static_cast<double>(unique_weight_bytes({file}));
  char head[160];
  std::snprintf(head, sizeof(head), "%s: artifact %.0f MB, weights %.0f MB, activations %.1f MB a call", name.c_str(),
                static_cast<double>(std::filesystem::file_size(file)) / kMegabyte, weights / kMegabyte,
                activations / kMegabyte);
  print_table(head, columns);
  ratios(name, weights + kWorkers * activations, bare, ours, crowded);
}

}  // namespace

void incident_1() {
  replay_incident({1, &save_recommender, {{"load in each request", kLoadEach}, {"and kept", kLoadEachKept}}, 16, 400});
}

void incident_2() {
  replay_incident({2, &save_extractor, {{"copy in each worker", kLoadWorker}}, 40, 60});
}

}  // namespace mme::bench
