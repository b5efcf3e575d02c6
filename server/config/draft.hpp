// Settings in the making: values from several layers, where each came from, and everything that is wrong with them.
// Knows no file format and no flag; those bring their values here.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/config/keys.hpp"
#include "server/config/settings.hpp"
#include "server/config/value.hpp"

namespace mme::server {

/// Later ones win.
enum class Layer {
  standard,
  mode,
  file,
  environment,
  flag,
  admin,  ///< a call to the running server; lost at restart
};

struct Origin {
  Layer layer = Layer::standard;
  std::string detail;  ///< "endpoint.yaml:12", "SAGEMAKER_BIND_TO_PORT", "--port"

  [[nodiscard]] std::string text() const;  ///< "default", "file endpoint.yaml:12", ...
};

/// One line for the operator: where, which key, what.
struct Problem {
  std::string where;
  std::string key;
  std::string what;

  [[nodiscard]] std::string text() const;
};

class Draft {
 public:
  /// Sets a key unless a later layer has. A bad value or an unknown key is a problem and changes nothing.
  void set(const std::string& key, const Value& value, Origin origin);
  /// The same for a setting of one model.
  void set_model(const std::string& model, const std::string& field, const Value& value, Origin origin);
  void add_problem(std::string where, std::string key, std::string what);

  [[nodiscard]] Origin origin(const std::string& key) const;

  Settings settings;
  std::map<std::string, Origin> origins;      ///< of keys that are not at their default
  std::map<std::string, std::string> hidden;  ///< what the file says of keys that a later layer has set
  std::vector<Problem> problems;

 private:
  /// False when a later layer, or the same one before, has set it; the latter is a problem.
  bool may_set(const std::string& key, const Origin& origin);
};

}  // namespace mme::server
