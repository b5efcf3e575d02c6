#include "loader/repository/settings/strict_yaml.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <memory>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "loader/guards.hpp"
#include "loader/repository/settings/yaml_lines.hpp"

namespace mme::loader {
namespace {

constexpr std::size_t kLargestFile = 1U << 20;
constexpr std::size_t kDeepest = 32;
constexpr std::size_t kMostProblems = 100;  // of a file that is something else altogether

/// Thrown through the parser to end a reading that makes no sense to go on with.
struct GiveUp {};

std::string shown(std::string_view key) {
  std::string text(key.substr(0, 128));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

/// True for text that begins with a quote and has none to end it. The parser takes the end of the file for one, and
/// every line up to there for text.
bool is_left_open(std::string_view text) {
  if (text.empty() || (text[0] != '"' && text[0] != '\'')) return false;
  const char quote = text[0];
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 == text.size() || text[i + 1] != quote) return false;
      ++i;  // '' stands for one '
    }
  }
  return true;
}

/// Builds the tree from the parser's events. Events and not the parser's own tree: that one resolves aliases, drops
/// tags and hides repeated keys.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1 || !guard("yaml_one_document")) return;
    add_problem(mark.line + 1, "", "a second document begins here, there must be one only");
    throw GiveUp{};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "?", anchor);
    add({YamlNode::Kind::null, mark.line + 1, {}, false, {}, {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    add_problem(mark.line + 1, path(), "aliases (*name) are not allowed");
    add({YamlNode::Kind::null, mark.line + 1, {}, false, {}, {}});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    if (guard("yaml_closed_quotes") &&
        is_left_open(text_.substr(std::min(text_.size(), static_cast<std::size_t>(mark.pos))))) {
      add_problem(mark.line + 1, path(), "the quote is never closed");
    }
    add({YamlNode::Kind::scalar, mark.line + 1, value, tag == "!", {}, {}});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::map);
  }
  void OnMapEnd() override { close(); }

  void add_problem(int line, std::string key, std::string what) {
    if (problems_.size() < kMostProblems) problems_.push_back({line, std::move(key), std::move(what)});
    if (problems_.size() >= kMostProblems && !finishing_) throw GiveUp{};
  }

  /// What is open ends where the reading was given up, and may be no good either; nobody is left to catch that.
  YamlDocument finish() {
    finishing_ = true;
    while (!open_.empty()) close();
    return {std::move(root_), std::move(problems_)};
  }

 private:
  /// A list or map whose end has not come yet. In a map, `key` is set between a key and its value.
  struct Open {
    YamlNode node;
    std::string path;
    bool has_key = false;
    bool skip_value = false;  ///< the key was no good; its value is read and dropped
    std::string key;
    int key_line = 0;
    std::unordered_map<std::string, int> lines;  ///< of the keys so far; a search of the entries would be quadratic
  };

  [[nodiscard]] std::string path() const {
    if (open_.empty()) return {};
    const Open& open = open_.back();
    if (!open.has_key) return open.path;
    return open.path.empty() ? shown(open.key) : open.path + '.' + shown(open.key);
  }

  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    const auto position = static_cast<std::size_t>(mark.pos);
    const bool bare_tag = position < text_.size() && text_[position] == '!';
    if (guard("yaml_tags") && (bare_tag || (!tag.empty() && tag != "?" && tag != "!"))) {
      add_problem(mark.line + 1, path(), "tags (!name) are not allowed");
    }
    if (guard("yaml_anchors") && anchor != YAML::NullAnchor) {
      add_problem(mark.line + 1, path(), "anchors (&name) are not allowed");
    }
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    check(mark, tag, anchor);
    if (guard("yaml_depth") && open_.size() >= kDeepest) {
      add_problem(mark.line + 1, path(), "nested too deeply");
      throw GiveUp{};
    }
    open_.push_back({{kind, mark.line + 1, {}, false, {}, {}}, path(), false, false, {}, 0, {}});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (open_.back().node.kind == YamlNode::Kind::list) {
      open_.back().node.items.push_back(std::move(node));
    } else if (open_.back().has_key) {
      add_value(open_.back(), std::move(node));
    } else {
      add_key(open_.back(), std::move(node));
    }
  }

  void add_key(Open& map, YamlNode key) {
    map.skip_value = key.kind != YamlNode::Kind::scalar;
    if (map.skip_value) add_problem(key.line, map.path, "a key must be plain text");
    map.key = std::move(key.text);
    map.key_line = key.line;
    map.has_key = true;
    if (map.skip_value) return;
    const auto [first, is_new] = map.lines.try_emplace(map.key, key.line);
    if (is_new || !guard("yaml_repeated_key")) return;
    add_problem(key.line, path(), "repeated key, first given in line " + std::to_string(first->second));
    map.skip_value = true;
  }

  static void add_value(Open& map, YamlNode value) {
    if (value.kind == YamlNode::Kind::null) value.line = map.key_line;  // nothing there, so the mark is of what follows
    if (!map.skip_value) map.node.entries.push_back({std::move(map.key), map.key_line, std::move(value)});
    map.has_key = false;
    map.skip_value = false;
  }

  std::string_view text_;
  int documents_ = 0;
  bool finishing_ = false;
  YamlNode root_;
  std::vector<Open> open_;
  std::vector<YamlProblem> problems_;
};

void parse(const std::string& text, Builder& builder) {
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const GiveUp&) {
  } catch (const YAML::Exception& error) {
    const int line = error.mark.is_null() ? 0 : error.mark.line + 1;
    builder.add_problem(line, "", "not YAML: " + error.msg);
  }
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const noexcept {
  for (const auto& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

YamlDocument read_strict_yaml(std::string_view text) {
  if (text.size() > kLargestFile) return {{}, {{0, "", "larger than 1 MiB"}}};
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  YamlDocument document;
  // Lines that the parser must not see at all: it would take tabs and control characters for something else.
  if (guard("yaml_lines")) document.problems = check_yaml_lines(text);
  if (!document.problems.empty()) return document;
  Builder builder(text);
  try {
    parse(std::string(text), builder);
  } catch (const GiveUp&) {
  }
  return builder.finish();
}

}  // namespace mme::loader
