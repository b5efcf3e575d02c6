#include "server/config/settings_file.hpp"

#include <optional>
#include <utility>

#include "loader/repository/settings/strict_yaml.hpp"

namespace mme::server {
namespace {

using loader::YamlDocument;
using loader::YamlNode;
using Kind = YamlNode::Kind;

Text text_of(const YamlNode& scalar) {
  return {scalar.text, scalar.quoted ? Style::quoted : Style::plain};
}

class SettingsReader {
 public:
  SettingsReader(const std::string& name, Draft& draft) : name_(name), draft_(draft) {}

  void read(const YamlDocument& document) {
    if (has_settings(document)) read_section("", document.root);
  }

  /// The whole file is the section of one model. Which one does not matter here: its name is not in the file.
  void read_as_model(const std::string& model, const YamlDocument& document) {
    if (!has_settings(document)) return;
    if (const auto* aliases = document.root.find("aliases")) {
      complain(aliases->line, "aliases", "can only be given under models: in the server's own settings");
    }
    read_model(model, document.root);
  }

 private:
  [[nodiscard]] std::string at(int line) const { return name_ + ":" + std::to_string(line); }

  bool has_settings(const YamlDocument& document) {
    for (const auto& problem : document.problems) {
      draft_.add_problem(problem.line > 0 ? at(problem.line) : name_, problem.key, problem.what);
    }
    if (document.root.kind == Kind::null) return false;
    if (document.root.kind == Kind::map) return true;
    complain(document.root.line, "", "must be a map of settings");
    return false;
  }

  void complain(int line, const std::string& key, std::string what) {
    draft_.add_problem(at(line), key, std::move(what));
  }

  void read_section(const std::string& path, const YamlNode& section) {
    for (const auto& entry : section.entries) {
      const std::string key = path.empty() ? entry.key : path + '.' + entry.key;
      // A dot inside a key would let `cache.room_wait: 1s` pass as a setting of the root.
      if (entry.key.find('.') != std::string::npos) {
        complain(entry.line, key, "unknown setting; sections are nested, not written with dots");
      } else if (key == "models") {
        read_models(entry.value);
      } else if (key == "listeners") {
        read_listeners(entry.value);
      } else if (find_key(key) != nullptr) {
        read_leaf(key, entry.value);
      } else if (is_section(key)) {
        read_subsection(key, entry.value);
      } else {
        complain(entry.line, key, "unknown setting");
      }
    }
  }

  // A section whose every line is a comment is empty, not a mistake.
  void read_subsection(const std::string& key, const YamlNode& node) {
    if (node.kind == Kind::null) return;
    if (node.kind != Kind::map) return complain(node.line, key, "must be a section with settings in it");
    read_section(key, node);
  }

  // One listener for now, written as a list so that files stay valid when there are more; a plain section will do.
  void read_listeners(const YamlNode& node) {
    if (node.kind != Kind::list) return read_subsection("listeners", node);
    if (node.items.size() != 1) return complain(node.line, "listeners", "must have exactly one listener");
    read_subsection("listeners", node.items.front());
  }

  void read_models(const YamlNode& node) {
    if (node.kind == Kind::null) return;
    if (node.kind != Kind::map) return complain(node.line, "models", "must be a section with model names in it");
    for (const auto& entry : node.entries) {
      const std::string key = "models." + entry.key;
      if (entry.value.kind != Kind::map) {
        complain(entry.line, key, "must be a section with settings of the model in it");
        continue;
      }
      read_model(entry.key, entry.value);
    }
  }

  void read_model(const std::string& model, const YamlNode& section) {
    for (const auto& field : section.entries) {
      if (const auto value = value_of("models." + model + '.' + field.key, field.value, true)) {
        draft_.set_model(model, field.key, *value, {Layer::file, at(field.line)});
      }
    }
  }

  void read_leaf(const std::string& key, const YamlNode& node) {
    if (const auto value = value_of(key, node)) draft_.set(key, *value, {Layer::file, at(node.line)});
  }

  std::optional<Value> value_of(const std::string& key, const YamlNode& node, bool may_hold_sections = false) {
    switch (node.kind) {
      case Kind::null: complain(node.line, key, "has no value"); return std::nullopt;
      case Kind::map: complain(node.line, key, "takes a value, not a section"); return std::nullopt;
      case Kind::scalar: return Value{{text_of(node)}, false};
      case Kind::list: break;
    }
    Value value{{}, true};
    for (const auto& item : node.items) {
      if (item.kind == Kind::map && may_hold_sections && value.items.empty()) {
        std::vector<Field> fields;
        for (const auto& entry : item.entries) {
          auto field = value_of(key + '.' + entry.key, entry.value);
          if (!field) return std::nullopt;
          fields.push_back({entry.key, std::move(*field)});
        }
        value.sections.push_back(std::move(fields));
        continue;
      }
      if (item.kind != Kind::scalar || !value.sections.empty()) {
        complain(item.line, key, "takes a list of plain values");
        return std::nullopt;
      }
      value.items.push_back(text_of(item));
    }
    return value;
  }

  const std::string& name_;
  Draft& draft_;
};

}  // namespace

void read_settings_file(const std::string& name, std::string_view text, Draft& draft) {
  SettingsReader(name, draft).read(loader::read_strict_yaml(text));
}

ModelFile read_model_file(const std::string& name, std::string_view text) {
  static const std::string kModel = "m";
  Draft draft;
  SettingsReader(name, draft).read_as_model(kModel, loader::read_strict_yaml(text));
  ModelFile file{std::move(draft.settings.models[kModel]), std::move(draft.problems)};
  const std::string prefix = "models." + kModel + ".";
  for (auto& problem : file.problems) {
    if (problem.key.starts_with(prefix)) problem.key.erase(0, prefix.size());
  }
  return file;
}

}  // namespace mme::server
