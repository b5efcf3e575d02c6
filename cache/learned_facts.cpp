// What was measured of artifacts.
// Sizes follow the last load when it differs much and else only grow, so that they do not move with each load's noise.
#include "cache/learned_facts.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace mme::cache {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// In the other order, and not more than fit.
template <class Row>
void keep_last_of_each(std::vector<Row>& rows, std::string Row::*key) {
  std::ranges::reverse(rows);
  std::unordered_set<std::string> seen;
  std::erase_if(rows, [&](const Row& row) { return !seen.insert(row.*key).second; });
  if (rows.size() > LearnedFacts::capacity) {
    rows.resize(LearnedFacts::capacity);
  }
}

}  // namespace

bool drifted(std::size_t learned, std::size_t measured) noexcept {
  const std::size_t apart = std::max(learned, measured) - std::min(learned, measured);
  return apart > mib && apart > learned / 10;
}

bool outgrown(std::size_t before, std::size_t now) noexcept {
  return now > before && now - before > 16 * mib && now - before > before / 2;
}

LearnedTable table_of_parts(LearnedTable parts) {
  keep_last_of_each(parts.artifacts, &ArtifactFacts::digest);
  keep_last_of_each(parts.names, &LearnedName::name);
  return parts;
}

std::size_t private_bytes(const ArtifactFacts& known, const loader::Estimate& told) noexcept {
  std::size_t named = 0;
  for (const loader::Segment& segment : told.segments) {
    named += segment.bytes;
  }
  const std::size_t stays = known.own_bytes + known.segment_bytes + known.kept_bytes;
  const std::size_t all = std::max(stays, told.segments.empty() ? known.alone_bytes : known.joined_bytes);
  // A segment may be told larger than it proves to be; that must not eat up what is private for certain.
  return std::max(all - std::min(all, named), std::min(known.own_bytes, told.private_bytes));
}

void LearnedFacts::restore(const LearnedTable& table, std::size_t budget) {
  for (auto row = table.artifacts.rbegin(); row != table.artifacts.rend(); ++row) {
    ArtifactFacts& facts = *of(row->digest);
    const std::size_t beside = row->own_bytes + row->segment_bytes;
    const LearnedPeaks peaks = row->peaks;
    facts = *row;
    facts.peaks = {};
    peaks.each([&](std::size_t bucket, std::size_t peak) {
      if (beside <= budget && peak <= budget - beside) {
        facts.peaks.raise(bucket, peak);
      }
    });
  }
  for (auto row = table.names.rbegin(); row != table.names.rend(); ++row) {
    names_.use(row->name) = row->sizes;
  }
}

bool LearnedFacts::copy(LearnedCursor& at, std::size_t most, LearnedTable& parts) const {
  auto artifact = artifacts_.in_order().upper_bound(at.artifact);
  for (; artifact != artifacts_.in_order().end() && most > 0; ++artifact, --most) {
    at.artifact = artifact->first;
    if (const ArtifactFacts& facts = *artifact->second.second; facts.measured()) {
      parts.artifacts.push_back(facts);
    }
  }
  auto name = names_.in_order().upper_bound(at.name);
  for (; name != names_.in_order().end() && most > 0; ++name, --most) {
    at.name = name->first;
    parts.names.push_back({name->second.first, name->second.second});
  }
  return artifact != artifacts_.in_order().end() || name != names_.in_order().end();
}

LearnedTable LearnedFacts::table() const {
  LearnedTable parts;
  LearnedCursor at;
  copy(at, SIZE_MAX, parts);
  return table_of_parts(std::move(parts));
}

std::shared_ptr<ArtifactFacts> LearnedFacts::of(const std::string& digest) {
  if (digest.empty()) {
    return nullptr;
  }
  auto& facts = artifacts_.use(digest);
  if (!facts) {
    facts = std::make_shared<ArtifactFacts>();
    facts->digest = digest;
  }
  return facts;
}

void LearnedFacts::raise(std::size_t& known, std::size_t bytes) noexcept {
  if (bytes > known) {
    known = bytes;
    ++changes_;
  }
}

std::optional<std::size_t> LearnedFacts::measured(ArtifactFacts& facts, const LoadMeasure& load) noexcept {
  const std::size_t before = facts.own_bytes + facts.segment_bytes;
  const bool known = facts.measured();
  const bool far = known && drifted(before, load.total());
  if (far) {
    facts.alone_bytes = 0;
    facts.joined_bytes = 0;
    facts.kept_bytes = 0;
  }
  // What moved between segments and the model's own is no drift, but both figures belong to one load.
  if (!known || far || load.total() > before || drifted(facts.segment_bytes, load.segment_bytes)) {
    facts.own_bytes = load.own_bytes;
    facts.segment_bytes = load.segment_bytes;
    ++changes_;
  }
  raise(load.given_bytes == 0 ? facts.alone_bytes : facts.joined_bytes, load.peak_bytes + load.given_bytes);
  return far ? std::optional(before) : std::nullopt;
}

std::optional<std::size_t> LearnedFacts::loaded_as(const std::string& name, const std::string& digest,
                                                   std::size_t bytes) {
  std::vector<NamedSize>& sizes = names_.use(name);
  if (!sizes.empty() && sizes.front().digest == digest && !drifted(sizes.front().bytes, bytes)) {
    return std::nullopt;
  }
  const bool is_new = std::ranges::find(sizes, digest, &NamedSize::digest) == sizes.end();
  const std::size_t before = sizes.empty() ? 0 : sizes.front().bytes;
  const bool grew = !sizes.empty() && is_new && outgrown(before, bytes);
  std::erase_if(sizes, [&](const NamedSize& size) { return size.digest == digest; });
  sizes.insert(sizes.begin(), {digest, bytes});
  sizes.resize(std::min(sizes.size(), sizes_per_name));
  ++changes_;
  return grew ? std::optional(before) : std::nullopt;
}

void LearnedFacts::kept(ArtifactFacts& facts, std::size_t bytes) noexcept {
  raise(facts.kept_bytes, bytes);
}

}  // namespace mme::cache
