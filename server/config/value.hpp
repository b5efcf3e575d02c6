// A value of a setting as somebody wrote it, before it is known what it should be.
// The same for a YAML file, an environment variable and a flag.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mme::server {

enum class Style {
  plain,     ///< in a file, without quotes: `true` is a truth value and 7 a number
  quoted,    ///< in a file, in quotes: text for sure
  argument,  ///< a flag or a variable, where everything is text: whatever the setting takes
};

struct Text {
  std::string text;
  Style style = Style::plain;
};

struct Field;

struct Value {
  std::vector<Text> items;  ///< exactly one unless it is a list
  bool is_list = false;
  std::vector<std::vector<Field>> sections = {};  ///< a list of sections instead of one of texts; files only

  /// From a flag or a variable.
  static Value of(std::string text);
};

struct Field {
  std::string name;
  Value value;
};

inline Value Value::of(std::string text) {
  return {{{std::move(text), Style::argument}}, false};
}

}  // namespace mme::server
