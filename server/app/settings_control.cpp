#include "server/app/settings_control.hpp"

#include "server/app/log.hpp"
#include "server/http/await_callback.hpp"

namespace mme::server {
namespace {

constexpr const char* kBudgetCall = "PUT /admin/budget";
constexpr const char* kBudgetKey = "cache.memory_budget";

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

void log_outcome(const SettingsOutcome& outcome) {
  if (!outcome.error) {
    const std::string applied = joined(outcome.applied);
    log(LogLevel::info, "settings_changed",
        {{"applied", std::string_view(applied)}, {"budget_bytes", static_cast<std::int64_t>(outcome.budget_bytes)}});
    for (const auto& change : outcome.shadowed) {
      log(LogLevel::warning, "setting_shadowed",
          {{"key", std::string_view(change.key)}, {"by", std::string_view(change.by)}});
    }
    return;
  }
  const std::string keys = joined(outcome.needs_restart);
  log(LogLevel::error, "settings_refused",
      {{"message", std::string_view(outcome.error->message)}, {"needs_restart", std::string_view(keys)}});
  for (const auto& problem : outcome.problems) {
    log(LogLevel::error, "settings_problem", {{"message", std::string_view(problem)}});
  }
}

SettingsOutcome refused(loader::ErrorCode code, std::string message) {
  SettingsOutcome outcome;
  outcome.error = loader::fail(code, std::move(message));
  return outcome;
}

SettingsOutcome with_problems(const std::vector<Problem>& problems, const std::string& what) {
  SettingsOutcome outcome = refused(
      loader::ErrorCode::invalid_request,
      what + (problems.size() == 1 ? " has a problem" : " have " + std::to_string(problems.size()) + " problems") +
          "; nothing was changed");
  for (const auto& problem : problems) outcome.problems.push_back(problem.text());
  return outcome;
}

}  // namespace

SettingsControl::SettingsControl(Sources sources, Resolved resolved, Resources resources)
    : sources_(std::move(sources)),
      machine_(resources.machine),
      base_bytes_(resources.base_bytes),
      base_(resolved),
      current_(resolved),
      settings_(std::make_shared<const Settings>(std::move(resolved.settings))),
      memory_(std::move(resources.memory)) {}

void SettingsControl::on_change(Prepare prepare, Apply apply) {
  prepare_ = std::move(prepare);
  apply_ = std::move(apply);
}

std::shared_ptr<const Settings> SettingsControl::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

MemoryBudget SettingsControl::memory() const {
  const std::lock_guard lock(mutex_);
  return memory_;
}

asio::awaitable<SettingsOutcome> SettingsControl::on_own_thread(std::function<SettingsOutcome()> work) {
  auto start = [this, work = std::move(work)](std::function<void(SettingsOutcome)> done) {
    own_.post([work, done = std::move(done)] {
      auto outcome = work();
      log_outcome(outcome);
      done(std::move(outcome));
    });
  };
  co_return co_await await_callback<SettingsOutcome>(std::move(start));
}

asio::awaitable<SettingsOutcome> SettingsControl::reload() {
  std::function<SettingsOutcome()> work = [this] { return reload_now(); };
  co_return co_await on_own_thread(std::move(work));
}

asio::awaitable<SettingsOutcome> SettingsControl::set_budget(std::optional<std::string> size) {
  std::function<SettingsOutcome()> work = [this, size = std::move(size)] { return set_budget_now(size); };
  co_return co_await on_own_thread(std::move(work));
}

SettingsOutcome SettingsControl::reload_now() {
  Resolved next = resolve(sources_);
  if (!next.problems.empty()) return with_problems(next.problems, "the settings");
  return change_to(std::move(next), admin_);
}

SettingsOutcome SettingsControl::set_budget_now(const std::optional<std::string>& size) {
  std::vector<Assignment> admin;
  if (size) admin.push_back({kBudgetCall, kBudgetKey, *size});
  return change_to(base_, std::move(admin));
}

SettingsOutcome SettingsControl::change_to(Resolved base, std::vector<Assignment> admin) {
  Resolved next = with_admin(base, admin);
  if (!next.problems.empty()) return with_problems(next.problems, "the budget");
  Changes changes = changes_between(current_, next);
  if (!changes.at_restart.empty()) {
    auto outcome = refused(loader::ErrorCode::conflict,
                           "these take a restart: " + joined(changes.at_restart) + "; nothing was changed");
    outcome.needs_restart = std::move(changes.at_restart);
    return outcome;
  }
  const unsigned workers = next.settings.compute_threads(machine_.cores()) + next.settings.threads.loader;
  auto memory = memory_budget(next.settings, machine_, base_bytes_, workers);
  if (!memory) return refused(loader::ErrorCode::conflict, memory.error().message + "; nothing was changed");
  if (const auto prepared = prepare_(next.settings, *memory); !prepared) {
    return refused(prepared.error().code, prepared.error().message + "; nothing was changed");
  }
  SettingsOutcome outcome;
  outcome.applied = std::move(changes.live);
  outcome.shadowed = std::move(changes.shadowed);
  outcome.budget_bytes = memory->budget;
  publish(std::move(base), std::move(next), std::move(admin), std::move(*memory));
  return outcome;
}

void SettingsControl::publish(Resolved base, Resolved next, std::vector<Assignment> admin, MemoryBudget memory) {
  if (next.origin(kBudgetKey).layer == Layer::admin) memory.origin = next.origin(kBudgetKey).text();
  const auto before = settings();
  const auto now = std::make_shared<const Settings>(next.settings);
  {
    const std::lock_guard lock(mutex_);
    settings_ = now;
    memory_ = std::move(memory);
  }
  base_ = std::move(base);
  current_ = std::move(next);
  admin_ = std::move(admin);
  apply_(*before, *now);
}

}  // namespace mme::server
