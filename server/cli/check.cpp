#include "server/cli/check.hpp"

#include <algorithm>

#include "server/config/keys.hpp"

namespace mme::server {
namespace {

constexpr std::size_t kOriginColumn = 48;

std::string line(const std::string& key, const std::string& value, const std::string& origin) {
  std::string text = key + " = " + value;
  text.resize(std::max(text.size() + 1, kOriginColumn), ' ');
  return text + "# " + origin + "\n";
}

std::string model_lines(const Resolved& resolved) {
  std::string lines;
  for (const auto& [name, options] : resolved.settings.models) {
    for (const auto& key : model_keys()) {
      const std::string full = "models." + name + "." + std::string(key.name);
      const auto origin = resolved.origins.find(full);
      if (origin != resolved.origins.end()) lines += line(full, key.show(options), origin->second.text());
    }
  }
  return lines;
}

}  // namespace

CheckReport check_report(const Resolved& resolved) {
  CheckReport report;
  for (const auto& key : keys()) {
    const std::string name(key.name);
    const std::string value = key.show(resolved.settings);
    report.settings += line(name, value.empty() ? "(not set)" : value, resolved.origin(name).text());
  }
  report.settings += line("admin token", resolved.settings.admin.token.empty() ? "(not set)" : "(set)",
                          resolved.origin("admin.token").text());
  report.settings += model_lines(resolved);
  for (const auto& variable : resolved.ignored) report.settings += "# ignored: " + variable + "\n";
  report.problems = problem_lines(resolved);
  return report;
}

}  // namespace mme::server
