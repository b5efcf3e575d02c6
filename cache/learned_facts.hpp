// What was measured of artifacts, by the digest of their content, so that it is known again after a restart: sizes for
// the next load, peaks for the next calls, the last sizes of each name for telling growth.
// Pure and bounded. Reads and writes nothing: the table is handed over and asked for as a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/learned_peaks.hpp"
#include "cache/recent_map.hpp"
#include "loader/model.hpp"

namespace mme::cache {

/// Of one artifact, in bytes. Segments (weights and code that several models may hold together) are counted apart from
/// what is the model's alone, for the estimate names them and they are charged by themselves.
struct ArtifactFacts {
  std::string digest;
  std::size_t own_bytes = 0;      ///< after its last load: weights and code outside any segment
  std::size_t segment_bytes = 0;  ///< after its last load: segments, also those that others held
  /// Most that a load held at once, with the segments that it was given: when it was given none, and when it was given
  /// some. The first makes what the second finds, such as compiled code, and takes more for it than what stays.
  std::size_t alone_bytes = 0;
  std::size_t joined_bytes = 0;
  std::size_t kept_bytes = 0;  ///< what calls added to own_bytes since, at most
  LearnedPeaks peaks;

  [[nodiscard]] bool measured() const noexcept { return own_bytes + segment_bytes > 0; }
};

/// One artifact that a name stood for, with all that it took after its load.
struct NamedSize {
  std::string digest;
  std::size_t bytes = 0;
  friend bool operator==(const NamedSize&, const NamedSize&) = default;
};
struct LearnedName {
  std::string name;
  std::vector<NamedSize> sizes;  ///< last loaded first
};

/// Everything that is known, the most recently used first.
struct LearnedTable {
  std::vector<ArtifactFacts> artifacts;
  std::vector<LearnedName> names;
};

/// How far a copy in parts has come.
struct LearnedCursor {
  std::uint64_t artifact = 0;
  std::uint64_t name = 0;
};
/// From copied parts to a table: turned round, and of rows that were used again meanwhile only the last.
[[nodiscard]] LearnedTable table_of_parts(LearnedTable parts);

/// What a load turned out to take; own and segments as in ArtifactFacts.
struct LoadMeasure {
  std::size_t own_bytes = 0;
  std::size_t segment_bytes = 0;
  std::size_t peak_bytes = 0;   ///< most that it held at once outside of given_bytes; 0: not known
  std::size_t given_bytes = 0;  ///< segments that it was given

  [[nodiscard]] std::size_t total() const noexcept { return own_bytes + segment_bytes; }
};

/// More than 10 % and more than 1 MiB apart.
[[nodiscard]] bool drifted(std::size_t learned, std::size_t measured) noexcept;
/// More than 1.5 times as much, and more than 16 MiB more.
[[nodiscard]] bool outgrown(std::size_t before, std::size_t now) noexcept;

/// What to claim outside of the segments that `told` names, which stay as they are: the most that such a load, or the
/// model after its calls, held in all, less those segments. So it does not matter which part of it was a segment when
/// it was measured.
[[nodiscard]] std::size_t private_bytes(const ArtifactFacts& known, const loader::Estimate& told) noexcept;

/// Not thread-safe.
class LearnedFacts {
 public:
  static constexpr std::size_t capacity = 16'384;  ///< artifacts; as many names
  static constexpr std::size_t sizes_per_name = 8;

  LearnedFacts() : artifacts_(capacity), names_(capacity) {}

  /// Takes in what another process left. Peaks that `budget` could never grant beside their model are left out: such
  /// a call would be refused without a try, which a restart has always mended.
  void restore(const LearnedTable& table, std::size_t budget);
  /// Appends the next rows, at most so many, the least recently used first. False when there are no more. Rows that are
  /// used between two calls come again; whoever holds a lock can so let go of it.
  bool copy(LearnedCursor& at, std::size_t most, LearnedTable& parts) const;
  [[nodiscard]] LearnedTable table() const;
  /// Moves on with everything worth keeping that the table did not say before.
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }

  /// The facts of that content, made when there are none; null without a digest. They stay good when they leave the
  /// table, but are not told by it any more.
  [[nodiscard]] std::shared_ptr<ArtifactFacts> of(const std::string& digest);
  /// Takes in a load. Returns what its total was taken for, when that was known and far off; then all sizes are begun
  /// anew.
  std::optional<std::size_t> measured(ArtifactFacts& facts, const LoadMeasure& load) noexcept;
  /// Notes that `name` stands for this content now. Returns what the name took before, when this content is new to it
  /// and far larger. So each new version is told once, and not at each change between two.
  std::optional<std::size_t> loaded_as(const std::string& name, const std::string& digest, std::size_t bytes);
  /// Calls have left so much in the model since its load.
  void kept(ArtifactFacts& facts, std::size_t bytes) noexcept;
  /// A peak of it was news.
  void peak_learned() noexcept { ++changes_; }

 private:
  void raise(std::size_t& known, std::size_t bytes) noexcept;

  RecentMap<std::shared_ptr<ArtifactFacts>> artifacts_;
  RecentMap<std::vector<NamedSize>> names_;
  std::uint64_t changes_ = 0;
};

}  // namespace mme::cache
