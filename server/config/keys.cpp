#include "server/config/keys.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "server/config/duration.hpp"
#include "server/config/read_value.hpp"
#include "server/config/size.hpp"

namespace mme::server {
namespace {

using loader::Result;

constexpr std::uint64_t kAnySize = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kLargestHeaders = std::uint64_t{1} << 20;  // held in memory for each connection

template <class T, class Target>
Complaint store(Result<T> value, Target& target) {
  if (!value) return value.error().message;
  target = static_cast<typename std::conditional_t<std::is_arithmetic_v<Target>, Target, T>>(std::move(*value));
  return std::nullopt;
}

std::string show(const std::vector<std::string>& names) {
  std::string text = "[";
  for (const auto& name : names) text += (text.size() > 1 ? ", " : "") + name;
  return text + "]";
}

// Each of these makes a row; `at` leads from the settings (const or not) to the field.
template <class At>
Key count(std::string_view name, At at, std::uint64_t least, std::uint64_t most) {
  return {name, [=](Settings& s, const Value& v) { return store(read_count(v, least, most), at(s)); },
          [=](const Settings& s) { return std::to_string(at(s)); }};
}

template <class At>
Key count_or(std::string_view name, At at, std::string_view word, std::uint64_t most) {
  return {name,
          [=](Settings& s, const Value& v) -> Complaint {
            if (is_word(v, word)) return at(s).reset(), std::nullopt;
            unsigned number = 0;
            const auto complaint = store(read_count(v, 1, most), number);
            if (complaint) return *complaint + ", or " + std::string(word);
            at(s) = number;
            return std::nullopt;
          },
          [=](const Settings& s) { return at(s) ? std::to_string(*at(s)) : std::string(word); }};
}

template <class At>
Key size(std::string_view name, At at, std::uint64_t most = kAnySize) {
  return {name, [=](Settings& s, const Value& v) { return store(read_size(v, most), at(s)); },
          [=](const Settings& s) { return size_text(at(s)); }};
}

template <class At>
Key size_or_auto(std::string_view name, At at) {
  return {name,
          [=](Settings& s, const Value& v) -> Complaint {
            if (is_word(v, "auto")) return at(s).reset(), std::nullopt;
            return store(read_size(v, kAnySize), at(s));
          },
          [=](const Settings& s) { return at(s) ? size_text(*at(s)) : "auto"; }};
}

template <class At>
Key duration(std::string_view name, At at, milliseconds least = milliseconds(1)) {
  return {name, [=](Settings& s, const Value& v) { return store(read_duration(v, least), at(s)); },
          [=](const Settings& s) { return duration_text(at(s)); }};
}

template <class At>
Key duration_or_off(std::string_view name, At at) {
  return {name,
          [=](Settings& s, const Value& v) -> Complaint {
            if (is_word(v, "off")) return at(s).reset(), std::nullopt;
            return store(read_duration(v, milliseconds(1)), at(s));
          },
          [=](const Settings& s) { return at(s) ? duration_text(*at(s)) : "off"; }};
}

template <class At>
Key text(std::string_view name, At at) {
  return {name, [=](Settings& s, const Value& v) { return store(read_text(v), at(s)); },
          [=](const Settings& s) { return at(s); }};
}

template <class At>
Key truth(std::string_view name, At at) {
  return {name, [=](Settings& s, const Value& v) { return store(read_truth(v), at(s)); },
          [=](const Settings& s) { return std::string(at(s) ? "true" : "false"); }};
}

template <class At>
Key names(std::string_view name, At at) {
  return {name, [=](Settings& s, const Value& v) { return store(read_names(v), at(s)); },
          [=](const Settings& s) { return show(at(s)); }};
}

/// A setting that the program is built around when it starts.
Key at_start(Key key) {
  key.live = false;
  return key;
}

constexpr std::pair<std::string_view, Mode> kModes[] = {
    {"self_managed", Mode::self_managed}, {"platform", Mode::platform}, {"single", Mode::single}};
constexpr std::pair<std::string_view, MapFiles> kMaps[] = {
    {"leased", MapFiles::leased}, {"trusted", MapFiles::trusted}, {"off", MapFiles::off}};

template <class Word, std::size_t N, class At>
Key word(std::string_view name, const std::pair<std::string_view, Word> (&words)[N], At at) {
  return {name,
          [&words, at](Settings& s, const Value& v) -> Complaint {
            std::string list;
            for (std::size_t i = 0; i < N; ++i) {
              if (is_word(v, words[i].first)) return at(s) = words[i].second, std::nullopt;
              list += (i == 0 ? "" : i + 1 == N ? " or " : ", ") + std::string(words[i].first);
            }
            return "must be " + list;
          },
          [&words, at](const Settings& s) {
            const auto* found = std::find_if(std::begin(words), std::end(words),
                                             [&](const auto& candidate) { return candidate.second == at(s); });
            return std::string(found->first);
          }};
}

Complaint read_state(Settings& settings, const Value& value) {
  for (const char* word : {"auto", "off"}) {
    if (is_word(value, word)) return settings.repository.state = word, std::nullopt;
  }
  return store(read_text(value), settings.repository.state);
}

Complaint read_log_level(Settings& settings, const Value& value) {
  const auto level = value.is_list ? std::nullopt : parse_log_level(value.items.front().text);
  if (!level || !is_word(value, to_string(*level))) return "must be error, warning, info or access";
  settings.log.level = *level;
  return std::nullopt;
}

Complaint read_queue_size(ModelOptions& options, const Value& value) {
  unsigned size = 0;
  if (auto complaint = store(read_count(value, 1, 1'000'000), size)) return complaint;
  options.queue_size = size;
  return std::nullopt;
}

std::string show(const std::vector<TensorOptions>& tensors) {
  std::string text = "[";
  for (const auto& tensor : tensors) {
    text += (text.size() > 1 ? ", {name: " : "{name: ") + tensor.name;
    if (tensor.datatype) text += ", datatype: " + std::string(loader::to_string(*tensor.datatype));
    if (tensor.shape) text += ", shape: " + loader::to_string(*tensor.shape);
    text += "}";
  }
  return text + "]";
}

#define MME_AT(field)    \
  [](auto& s) -> auto& { \
    return s.field;      \
  }

std::vector<Key> make_keys() {
  return {
      at_start(word("mode", kModes, MME_AT(mode))),
      at_start(text("repository.path", MME_AT(repository.path))),
      at_start({"repository.state", read_state, [](const Settings& s) { return s.repository.state; }}),
      at_start(text("listeners.host", MME_AT(listener.host))),
      at_start(count("listeners.port", MME_AT(listener.port), 0, 65535)),
      at_start(text("admin.token_file", MME_AT(admin.token_file))),
      at_start(count("threads.io", MME_AT(threads.io), 1, 256)),
      at_start(count_or("threads.compute", MME_AT(threads.compute), "auto", 1024)),
      at_start(count("threads.loader", MME_AT(threads.loader), 1, 64)),
      at_start(count("threads.intra_op", MME_AT(threads.intra_op), 1, 1024)),
      size_or_auto("cache.memory_budget", MME_AT(cache.memory_budget)),
      size_or_auto("cache.activation_floor", MME_AT(cache.activation_floor)),
      duration("cache.room_wait", MME_AT(cache.room_wait)),
      duration("cache.claim_after", MME_AT(cache.claim_after)),
      duration("cache.load_timeout", MME_AT(cache.load_timeout)),
      duration_or_off("cache.idle_unload", MME_AT(cache.idle_unload)),
      at_start(truth("cache.prefault", MME_AT(cache.prefault))),
      at_start(word("cache.map", kMaps, MME_AT(cache.map))),
      names("cache.pinned", MME_AT(cache.pinned)),
      names("cache.preload", MME_AT(cache.preload)),
      size("limits.body", MME_AT(limits.body)),
      size("limits.response", MME_AT(limits.response)),
      size("limits.headers", MME_AT(limits.headers), kLargestHeaders),
      count("limits.connections", MME_AT(limits.connections), 1, 1'000'000),
      at_start(count_or("limits.running_calls", MME_AT(limits.running_calls), "off", 1024)),
      duration("timeouts.header", MME_AT(timeouts.header)),
      duration("timeouts.body_idle", MME_AT(timeouts.body_idle)),
      duration("timeouts.write_idle", MME_AT(timeouts.write_idle)),
      duration("timeouts.request", MME_AT(timeouts.request)),
      duration("timeouts.keep_alive", MME_AT(timeouts.keep_alive)),
      duration("timeouts.drain", MME_AT(timeouts.drain), milliseconds(0)),
      duration("timeouts.drain_delay", MME_AT(timeouts.drain_delay), milliseconds(0)),
      count("queue.size", MME_AT(queue.size), 1, 1'000'000),
      at_start(count("metrics.per_model", MME_AT(metrics.per_model), 0, 100'000)),
      {"log.level", read_log_level, [](const Settings& s) { return std::string(to_string(s.log.level)); }},
  };
}

std::vector<ModelKey> make_model_keys() {
  return {
      {"pinned", [](ModelOptions& m, const Value& v) { return store(read_truth(v), m.pinned); },
       [](const ModelOptions& m) { return std::string(m.pinned.value_or(false) ? "true" : "false"); }},
      {"queue_size", read_queue_size,
       [](const ModelOptions& m) { return m.queue_size ? std::to_string(*m.queue_size) : ""; }},
      {"timeout", [](ModelOptions& m, const Value& v) { return store(read_duration(v, milliseconds(1)), m.timeout); },
       [](const ModelOptions& m) { return m.timeout ? duration_text(*m.timeout) : ""; }},
      {"default_version", [](ModelOptions& m, const Value& v) { return store(read_version(v), m.default_version); },
       [](const ModelOptions& m) { return m.default_version.value_or(""); }},
      {"aliases", [](ModelOptions& m, const Value& v) { return store(read_names(v), m.aliases); },
       [](const ModelOptions& m) { return show(m.aliases); }},
      {"inputs", [](ModelOptions& m, const Value& v) { return store(read_tensor_options(v), m.inputs); },
       [](const ModelOptions& m) { return show(m.inputs); }},
      {"outputs", [](ModelOptions& m, const Value& v) { return store(read_tensor_options(v), m.outputs); },
       [](const ModelOptions& m) { return show(m.outputs); }},
      {"replace",
       [](ModelOptions& m, const Value& v) -> Complaint {
         const bool offline = is_word(v, "offline");
         if (!offline && !is_word(v, "beside")) return "must be beside or offline";
         m.replace = offline ? Replace::offline : Replace::beside;
         return std::nullopt;
       },
       [](const ModelOptions& m) {
         return std::string(m.replace.value_or(Replace::beside) == Replace::offline ? "offline" : "beside");
       }},
  };
}

#undef MME_AT

template <class Table>
auto find_in(const Table& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& key) { return key.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

std::span<const Key> keys() {
  static const std::vector<Key> table = make_keys();
  return table;
}

const Key* find_key(std::string_view name) {
  return find_in(keys(), name);
}

bool is_section(std::string_view name) {
  const auto all = keys();
  return std::any_of(all.begin(), all.end(), [&](const Key& key) {
    return key.name.size() > name.size() && key.name.starts_with(name) && key.name[name.size()] == '.';
  });
}

std::span<const ModelKey> model_keys() {
  static const std::vector<ModelKey> table = make_model_keys();
  return table;
}

const ModelKey* find_model_key(std::string_view name) {
  return find_in(model_keys(), name);
}

}  // namespace mme::server
