// The table of segments: pieces of model memory that several models may hold together, each charged once.
// Knows holders only by number and phase; never touches the memory itself.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cache/charges.hpp"

namespace mme::cache {

/// How far the holder of a segment is.
enum class Holding { loading, ready, draining };

/// A segment is charged from its first holder to its last: as weights or code while a ready model holds it, else as
/// loading while a loading one does, else as draining.
struct SegmentRecord {
  std::string key;
  std::size_t bytes = 0;
  bool code = false;
  std::size_t loading = 0;
  std::size_t ready = 0;
  std::size_t draining = 0;

  /// Holders that will keep it: all but those on their way out.
  [[nodiscard]] std::size_t live() const noexcept { return loading + ready; }
  [[nodiscard]] std::size_t holders() const noexcept { return loading + ready + draining; }
  [[nodiscard]] Kind kind() const noexcept {
    if (ready > 0) return code ? Kind::code : Kind::weights;
    return loading > 0 ? Kind::loading : Kind::draining;
  }
};

/// Not thread-safe. Records stay where they are until their last holder lets go.
class SegmentTable {
 public:
  explicit SegmentTable(Charges& charges) noexcept : charges_(charges) {}

  [[nodiscard]] SegmentRecord* find(std::string_view key) noexcept;
  [[nodiscard]] const SegmentRecord* find(std::string_view key) const noexcept;
  /// Adds a holder. Equal keys are equal bytes, so the size first told counts.
  SegmentRecord* hold(const loader::Segment& segment, Holding as);
  void move(SegmentRecord* segment, Holding from, Holding to) noexcept;
  /// Takes a holder away; the record and its charge go with the last one.
  void drop(SegmentRecord* segment, Holding from) noexcept;
  /// Code grows when calls leave plans in it. The caller moves the charge: it was paid for as something else.
  static void grow(SegmentRecord& segment, std::size_t bytes) noexcept { segment.bytes += bytes; }

  /// Bytes that would be charged if every holder had a copy of its own, beyond what is charged.
  [[nodiscard]] std::size_t saved_bytes() const noexcept;
  template <class Visit>
  void each(Visit visit) const {
    for (const auto& [key, record] : records_) {
      visit(record);
    }
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };
  Charges& charges_;
  std::unordered_map<std::string, SegmentRecord, Hash, std::equal_to<>> records_;
};

}  // namespace mme::cache
