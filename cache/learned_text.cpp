// The learned table as text, and back.
// Every field has its limits here, so that nobody behind has to ask whether a figure can be true.
#include "cache/learned_text.hpp"

#include <algorithm>
#include <boost/crc.hpp>
#include <charconv>
#include <unordered_set>
#include <utility>

namespace mme::cache {
namespace {

constexpr std::string_view first_line = "mme learned 1\n";
constexpr std::string_view end_mark = "end ";
constexpr std::size_t end_length = 4 + 8 + 1;
constexpr std::size_t digest_length = 32;
constexpr std::size_t longest_name = 128;
/// No model is larger than a petabyte; sums of a few such figures cannot overflow.
constexpr std::size_t largest_size = std::size_t{1} << 50;
/// In the order in which they stand in a line.
constexpr std::size_t ArtifactFacts::*figures[] = {&ArtifactFacts::own_bytes, &ArtifactFacts::segment_bytes,
                                                   &ArtifactFacts::alone_bytes, &ArtifactFacts::joined_bytes,
                                                   &ArtifactFacts::kept_bytes};

std::string checksum(std::string_view text) {
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  std::string digits;
  for (int shift = 28; shift >= 0; shift -= 4) {
    digits += "0123456789abcdef"[crc.checksum() >> shift & 0xF];
  }
  return digits;
}

bool is_digest(std::string_view text) {
  return text.size() == digest_length && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= longest_name &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

bool writable(const ArtifactFacts& facts) {
  const auto fits = [&](std::size_t ArtifactFacts::*figure) { return facts.*figure <= largest_size; };
  return std::ranges::all_of(figures, fits) && is_digest(facts.digest) && facts.measured();
}

bool writable(const LearnedName& name) {
  return is_name(name.name) && !name.sizes.empty() && std::ranges::all_of(name.sizes, [](const NamedSize& size) {
           return is_digest(size.digest) && size.bytes <= largest_size;
         });
}

std::string line_of(const ArtifactFacts& facts) {
  std::string line = "a " + facts.digest;
  for (const auto figure : figures) {
    line += ' ' + std::to_string(facts.*figure);
  }
  facts.peaks.each([&](std::size_t bucket, std::size_t peak) {
    if (peak <= largest_size) {
      line += ' ' + std::to_string(bucket) + ':' + std::to_string(peak);
    }
  });
  return line + '\n';
}

std::string line_of(const LearnedName& name) {
  std::string line = "n " + name.name;
  for (const NamedSize& size : name.sizes) {
    line += ' ' + size.digest + ':' + std::to_string(size.bytes);
  }
  return line + '\n';
}

/// Appends as many as fit in `limit` bytes.
template <class Rows>
void append(std::string& text, const Rows& rows, std::size_t limit) {
  for (const auto& row : rows) {
    if (!writable(row)) {
      continue;
    }
    const std::string line = line_of(row);
    if (text.size() + line.size() > limit) {
      return;
    }
    text += line;
  }
}

/// The fields of one line, taken from the front; `good` ends at the first that is not as it must be.
class Fields {
 public:
  explicit Fields(std::string_view line) : rest_(line) {}

  [[nodiscard]] bool good() const noexcept { return good_; }
  [[nodiscard]] bool more() const noexcept { return good_ && !rest_.empty(); }

  /// Up to the next `end`, or to the end of the line where that is a space.
  std::string_view text(char end) {
    const std::size_t at = rest_.find(end);
    if (at == std::string_view::npos && end != ' ') {
      good_ = false;
      return {};
    }
    const std::string_view field = rest_.substr(0, at);
    const bool last = at == std::string_view::npos;
    rest_.remove_prefix(last ? rest_.size() : at + 1);
    good_ = good_ && !field.empty() && (last || !rest_.empty());
    return field;
  }
  std::size_t number(char end, std::size_t most) {
    const std::string_view digits = text(end);
    std::size_t value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool plain = digits.size() == 1 || !digits.starts_with('0');
    good_ = good_ && error == std::errc() && stop == digits.data() + digits.size() && plain && value <= most;
    return value;
  }
  std::string digest(char end) {
    const std::string_view field = text(end);
    good_ = good_ && is_digest(field);
    return std::string(field);
  }

 private:
  std::string_view rest_;
  bool good_ = true;
};

std::optional<ArtifactFacts> artifact_in(std::string_view line) {
  Fields fields(line);
  ArtifactFacts facts;
  facts.digest = fields.digest(' ');
  for (const auto figure : figures) {
    facts.*figure = fields.number(' ', largest_size);
  }
  for (std::size_t least = 0; fields.more();) {
    const std::size_t bucket = fields.number(':', LearnedPeaks::buckets - 1);
    const std::size_t peak = fields.number(' ', largest_size);
    if (!fields.good() || bucket < least) {
      return std::nullopt;
    }
    facts.peaks.raise(bucket, peak);
    least = bucket + 1;
  }
  return fields.good() && facts.measured() ? std::optional(std::move(facts)) : std::nullopt;
}

std::optional<LearnedName> name_in(std::string_view line) {
  Fields fields(line);
  LearnedName name{std::string(fields.text(' ')), {}};
  while (fields.more()) {
    NamedSize size{fields.digest(':'), 0};
    size.bytes = fields.number(' ', largest_size);
    const bool twice = std::ranges::find(name.sizes, size.digest, &NamedSize::digest) != name.sizes.end();
    if (twice || name.sizes.size() == LearnedFacts::sizes_per_name) {
      return std::nullopt;
    }
    name.sizes.push_back(std::move(size));
  }
  const bool whole = fields.good() && is_name(name.name) && !name.sizes.empty();
  return whole ? std::optional(std::move(name)) : std::nullopt;
}

/// What stands between the first line and the last, when these are right.
std::optional<std::string_view> body_of(std::string_view text) {
  if (text.size() > longest_learned_text || text.size() < first_line.size() + end_length ||
      !text.starts_with(first_line)) {
    return std::nullopt;
  }
  const std::string_view before = text.substr(0, text.size() - end_length);
  const std::string end = std::string(end_mark) + checksum(before) + '\n';
  if (!text.ends_with(end) || !before.ends_with('\n')) {
    return std::nullopt;
  }
  return before.substr(first_line.size());
}

/// Adds a row whose key is new, as long as there is room.
template <class Row>
bool add(std::vector<Row>& rows, std::optional<Row> row, std::unordered_set<std::string>& keys, std::string Row::*key) {
  if (!row || rows.size() == LearnedFacts::capacity || !keys.insert((*row).*key).second) {
    return false;
  }
  rows.push_back(std::move(*row));
  return true;
}

}  // namespace

std::string to_text(const LearnedTable& table) {
  constexpr std::size_t room = longest_learned_text - end_length;
  std::string text(first_line);
  append(text, table.artifacts, room / 4 * 3);
  append(text, table.names, room);
  return text + std::string(end_mark) + checksum(text) + '\n';
}

std::optional<LearnedTable> learned_from_text(std::string_view text) {
  auto rest = body_of(text);
  if (!rest) {
    return std::nullopt;
  }
  LearnedTable table;
  std::unordered_set<std::string> digests;
  std::unordered_set<std::string> names;
  while (!rest->empty()) {
    const std::string_view line = rest->substr(0, rest->find('\n'));
    rest->remove_prefix(line.size() + 1);
    if (line.size() < 2) {
      return std::nullopt;
    }
    const std::string_view kind = line.substr(0, 2);
    const bool added = kind == "a " ? add(table.artifacts, artifact_in(line.substr(2)), digests, &ArtifactFacts::digest)
                       : kind == "n " ? add(table.names, name_in(line.substr(2)), names, &LearnedName::name)
                                      : false;
    if (!added) {
      return std::nullopt;
    }
  }
  return table;
}

}  // namespace mme::cache
