// Which entry a name means now, and which one is about to take its place.
// Finds and counts nothing else; entries belong to the ledger.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cache/entry.hpp"

namespace mme::cache {

/// One name, version and device. `current` answers; `next` is loaded beside it to replace it (R2) and exists only
/// while `current` does.
struct NameSlot {
  std::optional<std::string> version;
  std::string device;
  Entry* current = nullptr;
  Entry* next = nullptr;
  /// The artifact that `current` replaced: a caller that still names it has an old view and gets `current`.
  std::optional<loader::ArtifactId> previous;
  /// After a replacement found no room: no other try before this.
  TimePoint retry_at = TimePoint::min();
};

/// Not thread-safe. Slots stay where they are until dropped.
class Directory {
 public:
  [[nodiscard]] NameSlot* find(const ModelSpec& spec) noexcept { return find(spec.name, spec.version, spec.device); }
  [[nodiscard]] NameSlot* find(std::string_view name, const std::optional<std::string>& version,
                               std::string_view device) noexcept;
  /// Slots that a name and version mean: the exact ones; without a version and an exact one, all of that name.
  [[nodiscard]] std::vector<NameSlot*> matching(std::string_view name, const std::optional<std::string>& version);
  NameSlot& open(const ModelSpec& spec);
  /// Takes the entry out of its slot. A `next` whose `current` leaves moves up. Drops the slot when it is empty.
  void remove(const Entry& entry) noexcept;

  template <class Visit>
  void each(Visit visit) const {
    for (const auto& [name, slots] : names_) {
      for (const auto& slot : slots) {
        visit(name, *slot);
      }
    }
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };
  using Slots = std::vector<std::unique_ptr<NameSlot>>;
  std::unordered_map<std::string, Slots, Hash, std::equal_to<>> names_;
};

}  // namespace mme::cache
