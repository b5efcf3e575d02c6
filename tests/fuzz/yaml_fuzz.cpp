// Any bytes as a settings file, and as the settings of one model. Either it is settings, or every problem has its line
// in the file; what was read is a tree of the depth and with the unique keys that the reader promises.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <string>

#include "loader/repository/settings/strict_yaml.hpp"
#include "server/config/resolve.hpp"
#include "server/config/settings_file.hpp"
#include "tests/fuzz/demand.hpp"

using namespace mme;
using namespace mme::fuzz;
using loader::YamlNode;

namespace {

constexpr int kDeepestTree = 32;

void check_node(const YamlNode& node, int lines, int depth) {
  demand(depth <= kDeepestTree + 1, "a tree is not deeper than promised");
  demand(node.line >= 0 && node.line <= lines + 1, "a value has its line in the file");
  for (const auto& item : node.items) check_node(item, lines, depth + 1);
  std::set<std::string> keys;
  for (const auto& entry : node.entries) {
    demand(keys.insert(entry.key).second, "keys are unique");
    check_node(entry.value, lines, depth + 1);
  }
}

void check_where(std::string_view where, int lines) {
  constexpr std::string_view name = "f.yaml";
  demand(where.starts_with(name), "a problem names the file");
  where.remove_prefix(name.size());
  if (where.empty()) return;  // of the file as a whole
  int line = 0;
  const auto end = where.data() + where.size();
  const bool number = where.front() == ':' && std::from_chars(where.data() + 1, end, line).ptr == end;
  demand(number && line >= 1 && line <= lines + 1, "a problem has its line in the file");
}

void check_problem(const server::Problem& problem, int lines) {
  check_where(problem.where, lines);
  const auto text = problem.text();
  demand(text.size() < 2000, "a problem is short");
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    demand(byte >= 0x20 && byte != 0x7f, "a problem is one line without control characters");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const int lines = 1 + static_cast<int>(std::count(text.begin(), text.end(), '\n'));

  const auto document = loader::read_strict_yaml(text);
  check_node(document.root, lines, 0);
  for (const auto& problem : document.problems) {
    demand(problem.line >= 0 && problem.line <= lines + 1, "a finding has its line in the file");
  }

  const auto model = server::read_model_file("f.yaml", text);
  demand(model.problems.size() >= document.problems.size(), "no finding is dropped");
  for (const auto& problem : model.problems) check_problem(problem, lines);

  server::Disk disk;
  disk.read_file = [&](const std::string&) { return loader::Result<std::string>(text); };
  disk.folder_exists = [](const std::string&) { return true; };
  server::Sources sources;
  sources.file = "f.yaml";
  const auto resolved = server::resolve(sources, disk);
  demand(resolved.problems.size() >= document.problems.size(), "no finding is dropped");
  for (const auto& problem : resolved.problems) {
    if (problem.where.starts_with("f.yaml")) check_problem(problem, lines);
  }
  return 0;
}
