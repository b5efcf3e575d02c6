// Replays golden/*.http: each file is a conversation with a fresh server whose models are only pretended (world()).
// A file that differs is a change of the public interface; MME_APPROVE=1 writes what is answered now, for review.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/dialects/administration.hpp"
#include "server/dialects/oip_v2.hpp"
#include "server/dialects/sagemaker.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/dialect_call.hpp"
#include "tests/support/fake_model_service.hpp"

using namespace mme::server;
using namespace mme::loader;
using mme::test::FakeModelService;

namespace {

/// One "### title" of a file: what is sent and, after a line "--> STATUS", what comes back.
struct Exchanged {
  std::string title;
  std::string sent;
  std::string answered;
};

void fill(FakeModelService& service) {
  service.add("stored", Presence::stored);
  service.add("loading", Presence::loading);
  service.add("ready", Presence::ready);
  service.add("draining", Presence::draining);
  service.add("broken", Presence::broken);
  service.add("team/fox", Presence::stored, "3");
  service.models["ready"].signature =
      Signature{{{"x", ArgumentKind::tensor, false, "Tensor"}, {"words", ArgumentKind::string_list, true, "List[str]"}},
                {{"OUTPUT__0", DataType::fp32, {-1, 2}}}};
  service.add("values", Presence::ready);
  service.runs["values"] = [](const TensorMap&) -> Result<TensorMap> {
    return TensorMap{{"real", *Tensor::take<float>(DataType::fp32, {2, 2}, {0.1F, -0.F, NAN, INFINITY})},
                     {"long", *Tensor::take<std::int64_t>(DataType::int64, {1}, {INT64_MIN})},
                     {"flag", *Tensor::take<std::uint8_t>(DataType::boolean, {2}, {1, 0})},
                     {"text", *Tensor::strings({}, {"caf\xc3\xa9 \"\n"})},
                     {"none", *Tensor::take<float>(DataType::fp32, {0, 3}, {})}};
  };
  service.add("bytes", Presence::ready);
  service.runs["bytes"] = [](const TensorMap&) -> Result<TensorMap> {
    return TensorMap{{"OUTPUT__0", *Tensor::strings({1}, {"\xff\xfe"})}};
  };
  const std::array failures{ErrorCode::inference_failed,  ErrorCode::queue_full, ErrorCode::load_timeout,
                            ErrorCode::deadline_exceeded, ErrorCode::cannot_fit, ErrorCode::all_in_use,
                            ErrorCode::activations,       ErrorCode::settling,   ErrorCode::quarantined,
                            ErrorCode::conflict,          ErrorCode::internal,   ErrorCode::shutting_down};
  for (const ErrorCode code : failures) {
    const std::string name = "fails-" + std::string(reason(code));
    service.add(name, Presence::stored);
    service.failures[name] = fail(code, "why it failed");
  }
}

/// Mode platform: nothing is loaded, and what is not loaded does not exist.
void fill_platform(FakeModelService& service) {
  service.only_in_memory = true;
  for (auto& [name, info] : service.models) {
    if (info.presence != Presence::broken) info.presence = Presence::stored;
  }
}

/// Refuses or grants by a plain rule: the reload goes on as `next` says, a budget is refused below 100 MiB.
class FakeSettings final : public SettingsService {
 public:
  asio::awaitable<SettingsOutcome> reload() override {
    SettingsOutcome outcome;
    switch (reloads_++) {
      case 0:
        outcome.applied = {"cache.memory_budget", "models.team/fox.pinned"};
        outcome.shadowed = {{"listeners.port", "flag --port"}};
        outcome.budget_bytes = 1U << 30;
        break;
      case 1:
        outcome.error = fail(ErrorCode::invalid_request, "the settings have 2 problems; nothing was changed");
        outcome.problems = {"endpoint.yaml:3: cache.room_wait: has no value",
                            "endpoint.yaml:9: colour: unknown setting"};
        break;
      default:
        outcome.error = fail(ErrorCode::conflict, "these take a restart: mode; nothing was changed");
        outcome.needs_restart = {"mode"};
    }
    co_return outcome;
  }
  asio::awaitable<SettingsOutcome> set_budget(std::optional<std::string> size) override {
    SettingsOutcome outcome;
    if (size == "1MiB") {
      outcome.error = fail(ErrorCode::conflict, "pinned models and the activation floor do not fit");
    } else {
      outcome.applied = {"cache.memory_budget"};
      outcome.budget_bytes = size ? 200U << 20 : 1U << 30;
    }
    co_return outcome;
  }

 private:
  int reloads_ = 0;
};

Method method_of(std::string_view name) {
  for (const Method method : {Method::get, Method::head, Method::post, Method::put, Method::patch, Method::del}) {
    if (to_string(method) == name) return method;
  }
  throw std::invalid_argument("unknown method in a golden file");
}

Request parse_request(const std::string& text) {
  std::istringstream lines(text);
  std::string method, target, line;
  lines >> method >> target;
  std::getline(lines, line);
  Request request = mme::test::request_of(method_of(method), target);
  while (std::getline(lines, line) && !line.empty()) {
    const std::size_t colon = line.find(": ");
    request.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  std::ostringstream body;
  body << lines.rdbuf();
  request.body = body.str();
  while (request.body.ends_with('\n')) request.body.pop_back();
  return request;
}

std::string render(const Reply& reply) {
  std::string text = "--> " + std::to_string(reply.status) + "\n";
  for (const auto& [name, value] : reply.headers) text += name + ": " + value + "\n";
  return text + "\n" + reply.body + "\n";
}

/// Cuts `text` at lines that begin with `mark`; each part begins with its mark, but for what precedes the first.
std::vector<std::string> cut(const std::string& text, std::string_view mark) {
  std::vector<std::string> parts(1);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(mark)) parts.emplace_back();
    parts.back() += line + "\n";
  }
  return parts;
}

std::vector<Exchanged> parse_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  std::vector<Exchanged> exchanges;
  std::vector<std::string> sections = cut(text.str(), "### ");
  sections.erase(sections.begin());
  for (const std::string& section : sections) {
    const std::size_t title_end = section.find('\n');
    const auto halves = cut(section.substr(title_end + 1), "--> ");
    std::string answered = halves.size() > 1 ? halves[1] : "";
    // The blank line that parts one exchange from the next.
    while (answered.ends_with("\n\n\n")) answered.pop_back();
    exchanges.push_back({section.substr(0, title_end), halves[0], answered});
  }
  return exchanges;
}

std::string without_end(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(MME_GOLDEN_DIR)) {
    if (entry.path().extension() == ".http") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void replay(const std::filesystem::path& path) {
  const std::string file = path.filename().string();
  const auto about = [&](std::string_view word) { return file.find(word) != std::string::npos; };
  FakeModelService service;
  fill(service);
  if (about("platform")) fill_platform(service);
  service.is_accepting = !about("not_ready") && !about("draining");
  service.is_ready = service.is_accepting;
  service.is_draining = about("draining");
  FakeSettings settings;
  // A file whose name says so is answered as in mode single, where one model is what /invocations runs.
  SageMakerOptions options;
  if (about("single")) options.default_model = "ready";
  const Router router =
      Router::make({std::make_shared<SageMaker>(service, options), std::make_shared<Administration>(settings),
                    std::make_shared<OipV2>(service, OipOptions{"0.1.0", true})})
          .value();
  const bool approve = std::getenv("MME_APPROVE") != nullptr;
  std::string approved;
  for (const Exchanged& exchange : parse_file(path)) {
    INFO(file << " " << exchange.title);
    const std::string answered = render(mme::test::call(router, parse_request(exchange.sent)).reply);
    if (!approve) CHECK(without_end(answered) == without_end(exchange.answered));
    approved += exchange.title + "\n" + without_end(exchange.sent) + "\n" + without_end(answered) + "\n\n";
  }
  if (approve) std::ofstream(path) << approved;
}

}  // namespace

TEST_CASE("the golden conversations are answered to the byte", "[contract]") {
  const auto files = golden_files();
  REQUIRE(files.size() >= 11);
  for (const auto& path : files) replay(path);
}
