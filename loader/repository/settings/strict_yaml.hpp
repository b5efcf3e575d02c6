// A strict reading of one small YAML file: a tree of plain values, and every problem with its line and key.
// Knows no settings and no types: what a text means is for whoever asked for it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mme::loader {

struct YamlEntry;

/// One value. Lines count from 1.
struct YamlNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  int line = 0;
  std::string text;                ///< scalar only, as written, unquoted
  bool quoted = false;             ///< scalar only: written in quotes or as a block, so it is text and nothing else
  std::vector<YamlNode> items;     ///< list only
  std::vector<YamlEntry> entries;  ///< map only, in the order of the file, keys unique

  [[nodiscard]] const YamlNode* find(std::string_view key) const noexcept;
};

struct YamlEntry {
  std::string key;
  int line = 0;
  YamlNode value;
};

struct YamlProblem {
  int line = 0;     ///< 0: the file as a whole
  std::string key;  ///< dotted path; may be empty
  std::string what;
};

struct YamlDocument {
  YamlNode root;  ///< null for an empty file
  std::vector<YamlProblem> problems;
};

/// Refused, each with its line: repeated keys, keys that are no text, tags, anchors, aliases, directives, tabs outside
/// comments, control characters, more than one document, more than a mebibyte, nesting deeper than 32, and whatever is
/// no YAML. Never throws; with problems the tree holds what could still be read.
[[nodiscard]] YamlDocument read_strict_yaml(std::string_view text);

}  // namespace mme::loader
