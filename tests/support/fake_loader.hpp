// A loader without libtorch: models of any size that fail, lie and grow as told, and testify where they lived and died.
// Thread-safe. Knows artifacts by their path; what it makes holds no memory.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "loader/model.hpp"
#include "tests/support/manual_executor.hpp"

namespace mme::test {

/// How one artifact behaves.
struct FakeArtifact {
  loader::Estimate estimate;
  loader::Footprint footprint;
  std::size_t load_growth = 0;                ///< asked of the load's grant, beyond what it holds at the start
  std::size_t load_need = 0;                  ///< most that the load holds; what its grant lacks of that is asked for
  std::size_t call_peak = 0;                  ///< what a call takes
  std::vector<loader::Segment> made_private;  ///< segments of the estimate that the load keeps for itself
  bool stateless = true;
  bool throws = false;      ///< load() throws
  bool null_model = false;  ///< load() returns nothing
  bool footprint_throws = false;
  bool breaks = false;  ///< its first call leaves it unusable
  std::optional<loader::Error> estimate_error;
  std::optional<loader::Error> load_error;
  std::function<void()> while_loading;              ///< runs inside load()
  std::function<void(bool call_waits)> afterwards;  ///< asked for as work for after the load
};

/// What happened to fake models; outlives them.
struct Testimony {
  std::atomic<int> live{0};
  std::atomic<int> loads{0};
  std::atomic<int> estimates{0};
  std::atomic<int> stopped{0};  ///< loads that were told to stop, and did
  std::atomic<int> running{0};
  std::atomic<int> died_elsewhere{0};     ///< models destroyed on another pool than the reaper
  std::atomic<int> died_running{0};       ///< models destroyed while a call ran on them
  std::atomic<int> stateful_overlaps{0};  ///< calls of a stateful model that ran at the same time
};

class FakeModel final : public loader::Model {
 public:
  FakeModel(FakeArtifact artifact, std::shared_ptr<Testimony> testimony)
      : artifact_(std::move(artifact)), testimony_(std::move(testimony)) {
    ++testimony_->live;
  }
  ~FakeModel() override {
    --testimony_->live;
    testimony_->died_elsewhere += current_pool == "reaper" ? 0 : 1;
    testimony_->died_running += calls_ > 0 ? 1 : 0;
  }

  loader::Result<loader::TensorMap> infer(const loader::TensorMap& inputs, loader::CallContext& context) override {
    const int others = calls_++;
    testimony_->stateful_overlaps += !artifact_.stateless && others > 0 ? 1 : 0;
    const std::size_t extra =
        artifact_.call_peak > context.granted_bytes ? artifact_.call_peak - context.granted_bytes : 0;
    const bool room = extra == 0 || context.memory->grow(extra);
    context.peak_bytes = artifact_.call_peak;
    if (room) {
      context.memory->shrink(context.granted_bytes + extra);
    } else {
      context.memory->shrink(context.granted_bytes);
    }
    --calls_;
    if (!room) {
      return loader::fail(loader::ErrorCode::activations, "no room");
    }
    return inputs;
  }
  [[nodiscard]] const loader::Signature& signature() const override { return signature_; }
  [[nodiscard]] loader::Footprint footprint() const override {
    if (artifact_.footprint_throws) {
      throw std::runtime_error("no footprint");
    }
    return artifact_.footprint;
  }
  [[nodiscard]] bool stateless() const override { return artifact_.stateless; }
  [[nodiscard]] bool usable() const noexcept override { return !artifact_.breaks; }

 private:
  FakeArtifact artifact_;
  std::shared_ptr<Testimony> testimony_;
  loader::Signature signature_;
  std::atomic<int> calls_{0};
};

class FakeLoader final : public loader::ModelLoader {
 public:
  /// Says how the artifact of that path behaves from now on.
  void put(const std::string& path, FakeArtifact artifact) {
    const std::lock_guard lock(mutex_);
    artifacts_[path] = std::move(artifact);
  }
  /// A model of so many private bytes, estimated rightly.
  void put(const std::string& path, std::size_t bytes) {
    FakeArtifact artifact;
    artifact.estimate.private_bytes = bytes;
    artifact.footprint.private_bytes = bytes;
    put(path, std::move(artifact));
  }
  [[nodiscard]] Testimony& testimony() const noexcept { return *testimony_; }

  /// For tests that look after the loader is gone.
  [[nodiscard]] std::shared_ptr<const Testimony> share_testimony() const noexcept { return testimony_; }

  [[nodiscard]] loader::Result<loader::Estimate> estimate(const loader::ModelSpec& spec) const override {
    ++testimony_->estimates;
    const FakeArtifact artifact = find(spec);
    if (artifact.estimate_error) {
      return *artifact.estimate_error;
    }
    return artifact.estimate;
  }
  [[nodiscard]] loader::Result<std::unique_ptr<loader::Model>> load(const loader::ModelSpec& spec,
                                                                    loader::LoadContext& context) const override {
    ++testimony_->loads;
    const FakeArtifact artifact = find(spec);
    if (artifact.while_loading) {
      artifact.while_loading();
    }
    if (context.stop.stop_requested()) {
      ++testimony_->stopped;
      return loader::fail(loader::ErrorCode::conflict, "given up");
    }
    if (artifact.throws) {
      throw std::runtime_error("a loader that throws");
    }
    if (artifact.load_growth > 0 && !context.memory->grow(artifact.load_growth)) {
      return loader::fail(loader::ErrorCode::cannot_fit, "no room to load");
    }
    std::size_t granted = context.granted_bytes.value_or(artifact.estimate.private_bytes);
    for (const loader::Segment& segment : artifact.made_private) {
      if (!context.memory->make_private(segment)) {
        return loader::fail(loader::ErrorCode::cannot_fit, "no room to load");
      }
      granted += segment.bytes;
    }
    if (artifact.load_need > granted && !context.memory->grow(artifact.load_need - granted)) {
      return loader::fail(loader::ErrorCode::cannot_fit, "no room to load");
    }
    context.peak_bytes = artifact.load_need;
    if (artifact.load_error) {
      return *artifact.load_error;
    }
    if (artifact.null_model) {
      return std::unique_ptr<loader::Model>();
    }
    if (artifact.afterwards) {
      context.afterwards = [work = artifact.afterwards, waits = context.call_waits] { work(waits); };
    }
    return std::unique_ptr<loader::Model>(std::make_unique<FakeModel>(artifact, testimony_));
  }

 private:
  [[nodiscard]] FakeArtifact find(const loader::ModelSpec& spec) const {
    const std::lock_guard lock(mutex_);
    const auto found = artifacts_.find(spec.artifact.path);
    return found == artifacts_.end() ? FakeArtifact{} : found->second;
  }
  std::shared_ptr<Testimony> testimony_ = std::make_shared<Testimony>();
  mutable std::mutex mutex_;
  std::map<std::string, FakeArtifact> artifacts_;
};

/// A spec whose path is its name; `stamp` tells rewritten artifacts apart.
inline loader::ModelSpec spec_of(const std::string& name, std::int64_t stamp = 0) {
  loader::ModelSpec spec;
  spec.name = name;
  spec.artifact.path = name;
  spec.artifact.ctime_ns = stamp;
  return spec;
}

}  // namespace mme::test
