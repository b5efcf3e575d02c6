#include "server/config/environment.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "server/config/number.hpp"

namespace mme::server {
namespace {

/// Variables whose value becomes that of a setting, with a unit behind it where they carry none.
struct Direct {
  std::string_view variable;
  std::string_view key;
  std::string_view unit;
};
constexpr std::array<Direct, 4> kDirect{{
    {"SAGEMAKER_BIND_TO_PORT", "listeners.port", ""},
    {"SAGEMAKER_MODEL_SERVER_WORKERS", "threads.compute", ""},
    {"SAGEMAKER_STARTUP_TIMEOUT", "cache.load_timeout", "s"},
    {"SAGEMAKER_MAX_PAYLOAD_IN_MB", "limits.body", "MiB"},
}};

/// Variables that mean the same; the first one that is set wins.
struct Alternatives {
  std::array<std::string_view, 2> variables;
  std::string_view key;
  std::string_view unit;
};
constexpr std::array<Alternatives, 2> kAlternatives{{
    {{"SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS", "SAGEMAKER_MODEL_SERVER_TIMEOUT"}, "timeouts.request", "s"},
    {{"SAGEMAKER_MAX_CONCURRENT_TRANSFORMS", "MAX_CONCURRENT_TRANSFORMS"}, "limits.running_calls", ""},
}};

constexpr std::string_view kToken = "MME_ADMIN_TOKEN";
constexpr std::string_view kMultiModel = "SAGEMAKER_MULTI_MODEL";
constexpr std::string_view kDefaultAccept = "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT";
constexpr std::string_view kBaseFolder = "SAGEMAKER_BASE_DIR";
constexpr std::array<std::string_view, 4> kForModelServers{"SAGEMAKER_", "MME_", "TS_", "MMS_"};

class EnvironmentReader {
 public:
  EnvironmentReader(const Environment& environment, Draft& draft) : environment_(environment), draft_(draft) {}

  std::vector<std::string> read() {
    read_mode();
    read_token();
    read_accept();
    (void)take(kBaseFolder);
    for (const auto& row : kDirect) {
      if (const auto text = take(row.variable)) set(row.variable, row.key, *text, row.unit);
    }
    for (const auto& row : kAlternatives) read_alternatives(row);
    for (const auto& [name, value] : environment_) note_if_ignored(name);
    std::sort(ignored_.begin(), ignored_.end());
    return std::move(ignored_);
  }

 private:
  std::optional<std::string> take(std::string_view variable) {
    const auto found = environment_.find(std::string(variable));
    if (found == environment_.end()) return std::nullopt;
    used_.push_back(variable);
    return found->second;
  }

  void set(std::string_view variable, std::string_view key, const std::string& text, std::string_view unit) {
    // The variables carry plain numbers; "5s" with a unit behind it would be read as something nobody meant.
    if (const auto number = parse_number(text); !number) {
      return draft_.add_problem(std::string(variable), std::string(key), number.error().message);
    }
    if (text == "0" && variable == "SAGEMAKER_MAX_PAYLOAD_IN_MB") {
      ignored_.push_back(std::string(variable) + " (0 asks for no limit, there is always one)");
      return;
    }
    draft_.set(std::string(key), Value::of(text + std::string(unit)), {Layer::environment, std::string(variable)});
  }

  void read_alternatives(const Alternatives& row) {
    std::string_view winner;
    for (const auto variable : row.variables) {
      const auto text = take(variable);
      if (!text) continue;
      if (!winner.empty()) {
        ignored_.push_back(std::string(variable) + " (" + std::string(winner) + " is set)");
        continue;
      }
      winner = variable;
      set(variable, row.key, *text, row.unit);
    }
  }

  void read_mode() {
    auto text = take(kMultiModel);
    if (!text) return;
    std::transform(text->begin(), text->end(), text->begin(), [](unsigned char c) { return std::tolower(c); });
    if (*text == "true") {
      draft_.set("mode", Value::of("platform"), {Layer::environment, std::string(kMultiModel)});
    } else if (*text != "false") {
      draft_.add_problem(std::string(kMultiModel), "mode", "must be true or false");
    }
  }

  /// The type of replies whose request names none: JSON, or the start is refused, for nobody must get something else
  /// than the platform was told.
  void read_accept() {
    const auto text = take(kDefaultAccept);
    if (text && *text != "application/json") {
      draft_.add_problem(std::string(kDefaultAccept), "", "replies can only be application/json");
    }
  }

  void read_token() {
    const auto text = take(kToken);
    if (!text) return;
    if (!is_token(*text)) {
      return draft_.add_problem(std::string(kToken), "", "must be printable characters without spaces");
    }
    draft_.settings.admin.token = *text;
    draft_.origins["admin.token"] = {Layer::environment, std::string(kToken)};
  }

  void note_if_ignored(const std::string& name) {
    if (std::find(used_.begin(), used_.end(), name) != used_.end()) return;
    const auto is_prefix = [&](std::string_view prefix) { return name.starts_with(prefix); };
    if (std::any_of(kForModelServers.begin(), kForModelServers.end(), is_prefix)) ignored_.push_back(name);
  }

  const Environment& environment_;
  Draft& draft_;
  std::vector<std::string_view> used_;
  std::vector<std::string> ignored_;
};

}  // namespace

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

std::vector<std::string> read_environment(const Environment& environment, Draft& draft) {
  return EnvironmentReader(environment, draft).read();
}

std::string base_folder(const Environment& environment) {
  const auto found = environment.find(std::string(kBaseFolder));
  return found == environment.end() || found->second.empty() ? "/opt/ml" : found->second;
}

}  // namespace mme::server
