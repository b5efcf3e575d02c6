// The weights of one load: which of them lie in maps, who pays for those meanwhile, and which are shared in the end.
// No libtorch: it says where bytes are, and the module's storages are pointed there by others.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "loader/torch/archive_check.hpp"
#include "loader/torch/artifact_file.hpp"
#include "loader/torch/weight_pool.hpp"
#include "loader/torch/weight_run.hpp"
#include "loader/torch/weight_runs.hpp"

namespace mme::loader {

/// Where one weight lies: weight number `number` of a run; no run: it is to be copied.
struct WeightPlace {
  std::shared_ptr<WeightRun> run;
  std::size_t number = 0;
};

/// Every run is either held by the cache for this load, as the estimate named it, or paid for by the load's account,
/// until the end of the load; then by the cache if it is shared, else by the account.
class WeightLoad {
 public:
  struct Terms {
    const ArtifactFile& file;
    const ArtifactId& artifact;
    const ArchivePlan& plan;
    MapPolicy policy;
    MemoryGrant& memory;
    MemoryAccount& account;
    WeightPool& pool;
  };
  /// Of the runs those weights that are `written` have no place: they are to be copied.
  WeightLoad(const Terms& terms, std::vector<RunPlan> runs, const WrittenWeights& written,
             const std::vector<Segment>& held);

  /// Takes the runs that others hold and that these were proven to equal, if it `may_share`, and maps the rest.
  /// Why nothing is mapped; "" when it is. Throws std::bad_alloc when there is no room.
  const char* open(bool may_share);
  [[nodiscard]] WeightPlace place(std::size_t weight) const;
  [[nodiscard]] bool took_others() const noexcept { return took_others_; }
  [[nodiscard]] const std::shared_ptr<WeightMap>& own_map() const noexcept { return map_; }

  /// Calls may write to these, so each is to be copied, and then has no place. What runs of nothing else took is room
  /// for the copies; they go with the storages that lie in them. Throws std::bad_alloc when there is none.
  void let_go_of(const WrittenWeights& written);
  /// Nobody writes to them: whoever holds equal weights shares them. Returns the weights that lie elsewhere from now
  /// on.
  [[nodiscard]] std::vector<std::size_t> share();
  /// The model has them to itself. Throws std::bad_alloc when there is no room for what others go on holding.
  void keep();
  /// Nothing lies in maps after all: the room that the cache holds for them is the load's own, for copies.
  void give_up();

  /// At the end of the load: the cache charges what is shared from now on, under these keys. None after keep().
  [[nodiscard]] std::vector<Segment> hand_to_cache();
  /// Maps that weights lie in.
  [[nodiscard]] std::vector<std::shared_ptr<WeightMap>> maps() const;
  [[nodiscard]] std::size_t mapped_bytes() const;

 private:
  struct Run {
    RunPlan plan;
    std::string key;    ///< under which the cache holds or will hold it; "": it does not
    bool held = false;  ///< by the cache, for this load
    bool shared = false;
    std::shared_ptr<WeightRun> at;
  };

  bool make_private(const Segment& segment) noexcept;
  bool take_over(Run& run) noexcept;
  void take_over_all();
  void take_over_unnamed();
  void look_up();

  Terms terms_;
  std::vector<Run> runs_;
  std::map<std::string, std::size_t> held_;                    // bytes by key, of segments that no run is known for
  std::vector<std::pair<std::size_t, std::size_t>> place_of_;  // by weight: run, number in it; no run: npos
  std::shared_ptr<WeightMap> map_;
  bool took_others_ = false;
};

}  // namespace mme::loader
