// The calls that change settings of the running server: POST /admin/reload, PUT /admin/budget.
// Routes and bodies only; what a change means is the SettingsService's.
#pragma once

#include <string>
#include <vector>

#include "server/dialects/settings_service.hpp"
#include "server/http/router.hpp"

namespace mme::server {

/// Stateless; handlers may run on any io thread, several at once. The service must outlive it.
class Administration final : public Dialect {
 public:
  explicit Administration(SettingsService& settings) : settings_(settings) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "admin"; }
  [[nodiscard]] std::vector<Route> routes() override;
  /// {"error": "..."}
  [[nodiscard]] Reply error_reply(const Error& error) const override;

 private:
  asio::awaitable<Reply> reload(Exchange& exchange);
  asio::awaitable<Reply> set_budget(Exchange& exchange);

  SettingsService& settings_;
};

/// The value of `memory_budget` in {"memory_budget": "200MiB" | 209715200 | "auto" | null}; nullopt for null.
[[nodiscard]] Result<std::optional<std::string>> read_budget_request(std::string_view body);

/// {"applied": [...], "shadowed": [{"key", "by"}], "memory_budget_bytes": n}, or with an error {"error", "problems",
/// "needs_restart"}.
[[nodiscard]] std::string write_outcome(const SettingsOutcome& outcome);

}  // namespace mme::server
