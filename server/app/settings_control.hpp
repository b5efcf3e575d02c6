// The settings in force, and how they change while the server runs: read anew and applied whole, or not at all.
// Knows where settings come from and what may change; how a change reaches the parts is its owner's.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/config/memory_budget.hpp"
#include "server/config/resolve.hpp"
#include "server/dialects/settings_service.hpp"
#include "server/inference/worker_pool.hpp"

namespace mme::server {

/// What the machine gives, as it was found at start.
struct Resources {
  Machine machine;
  std::uint64_t base_bytes = 0;       ///< resident before any model
  std::uint64_t base_anon_bytes = 0;  ///< the anonymous part of that
  MemoryBudget memory;
};

/// Thread-safe. Changes are made one after another on a thread of its own, so that no io thread waits for a disk.
class SettingsControl final : public SettingsService {
 public:
  /// Called before anything else changes; an error leaves everything as it is.
  using Prepare = std::function<loader::Result<void>(const Settings& next, const MemoryBudget& memory)>;
  /// Called when the new settings are in force; must not fail.
  using Apply = std::function<void(const Settings& before, const Settings& now)>;

  SettingsControl(Sources sources, Resolved resolved, Resources resources);

  /// To be called once, before the first change.
  void on_change(Prepare prepare, Apply apply);

  /// What is in force now; stays as it is for whoever holds it.
  [[nodiscard]] std::shared_ptr<const Settings> settings() const;
  [[nodiscard]] MemoryBudget memory() const;
  [[nodiscard]] const Machine& machine() const noexcept { return machine_; }

  asio::awaitable<SettingsOutcome> reload() override;
  asio::awaitable<SettingsOutcome> set_budget(std::optional<std::string> size) override;

 private:
  SettingsOutcome reload_now();
  SettingsOutcome set_budget_now(const std::optional<std::string>& size);
  SettingsOutcome change_to(Resolved base, std::vector<Assignment> admin);
  void publish(Resolved base, Resolved next, std::vector<Assignment> admin, MemoryBudget memory);
  asio::awaitable<SettingsOutcome> on_own_thread(std::function<SettingsOutcome()> work);

  const Sources sources_;
  const Machine machine_;
  const std::uint64_t base_bytes_;
  Prepare prepare_;
  Apply apply_;

  // Touched on the own thread only.
  Resolved base_;     ///< file, environment and flags
  Resolved current_;  ///< with what admin calls have set
  std::vector<Assignment> admin_;

  mutable std::mutex mutex_;
  std::shared_ptr<const Settings> settings_;  ///< guarded by mutex_, as the next
  MemoryBudget memory_;

  WorkerPool own_{{.name = "mme-settings", .threads = 1, .stack_bytes = 8U << 20, .enter_thread = {}}};
};

}  // namespace mme::server
