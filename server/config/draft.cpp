#include "server/config/draft.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "loader/repository/names.hpp"

namespace mme::server {
namespace {

std::string_view name_of(Layer layer) {
  switch (layer) {
    case Layer::standard: return "default";
    case Layer::mode: return "mode";
    case Layer::file: return "file";
    case Layer::environment: return "environment";
    case Layer::flag: return "flag";
    case Layer::admin: return "admin call";
  }
  return "";
}

}  // namespace

std::string Origin::text() const {
  return std::string(name_of(layer)) + (detail.empty() ? "" : " " + detail);
}

std::string Problem::text() const {
  std::string line = where + ": " + (key.empty() ? "" : key + ": ") + what;
  // Keys and values are quoted from whatever was written; they must not break or colour the operator's terminal.
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return line;
}

void Draft::add_problem(std::string where, std::string key, std::string what) {
  problems.push_back({std::move(where), std::move(key), std::move(what)});
}

Origin Draft::origin(const std::string& key) const {
  const auto found = origins.find(key);
  return found == origins.end() ? Origin{} : found->second;
}

bool Draft::may_set(const std::string& key, const Origin& origin) {
  const auto found = origins.find(key);
  if (found == origins.end() || found->second.layer < origin.layer) return true;
  if (found->second.layer == origin.layer) {
    add_problem(origin.detail, key, "already set by " + found->second.detail);
  }
  return false;
}

void Draft::set(const std::string& name, const Value& value, Origin origin) {
  const Key* key = find_key(name);
  if (key == nullptr) return add_problem(origin.detail, name, "unknown setting");
  // Read also what a later layer hides: a mistake in the file must not come to light when a flag goes away.
  Settings scratch = settings;
  if (const auto complaint = key->read(scratch, value)) return add_problem(origin.detail, name, *complaint);
  const bool hides_file = this->origin(name).layer == Layer::file && origin.layer > Layer::file;
  if (!may_set(name, origin)) return;
  if (hides_file) hidden[name] = key->show(settings);
  settings = std::move(scratch);
  origins[name] = std::move(origin);
}

void Draft::set_model(const std::string& model, const std::string& field, const Value& value, Origin origin) {
  const std::string name = "models." + model + "." + field;
  if (!loader::is_valid_model_name(model)) return add_problem(origin.detail, name, "not a model name");
  const ModelKey* key = find_model_key(field);
  if (key == nullptr) return add_problem(origin.detail, name, "unknown setting of a model");
  ModelOptions scratch = settings.models[model];
  if (const auto complaint = key->read(scratch, value)) return add_problem(origin.detail, name, *complaint);
  const bool hides_file = this->origin(name).layer == Layer::file && origin.layer > Layer::file;
  if (!may_set(name, origin)) return;
  if (hides_file) hidden[name] = key->show(settings.models[model]);
  settings.models[model] = std::move(scratch);
  origins[name] = std::move(origin);
}

}  // namespace mme::server
