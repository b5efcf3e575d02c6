// The vocabulary of loading: what an artifact is, what a loaded model can do, who loads it.
// No libtorch, no Asio, no YAML; loader/torch implements it, tests fake it.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "loader/error.hpp"
#include "loader/memory_grant.hpp"
#include "loader/signature.hpp"
#include "loader/tensor.hpp"

namespace mme::loader {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
/// Absolute; TimePoint::max() means none.
using Deadline = TimePoint;

/// Identity of one file on disk as it was when it was looked at. Two equal ids are the same bytes as far as the file
/// system can tell; a rewritten or replaced file has another id.
struct ArtifactId {
  std::string path;  ///< canonical; never shown to clients
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;

  friend auto operator<=>(const ArtifactId&, const ArtifactId&) = default;
};

/// Settings of one model that the loader and the cache act on.
struct ModelSettings {
  bool pinned = false;    ///< never a victim
  bool optimize = false;  ///< run with the optimising executor; its memory is charged
  /// When a rewritten artifact and the one in memory do not fit together, the old one goes first: calls then wait for
  /// the load, and nothing answers when it fails. Otherwise the load is refused and the old one stays.
  bool replace_offline = false;
  std::optional<std::size_t> queue_size = std::nullopt;  ///< calls that wait; nullopt: as many as for every model
};

/// One model to load: a name, a version and the artifact behind them.
struct ModelSpec {
  std::string name;                    ///< as clients say it
  std::optional<std::string> version;  ///< digits; nullopt for an unversioned artifact
  ArtifactId artifact;
  std::string device = "cpu";
  ModelSettings settings;
};

/// What a load will take, told before a weight is read.
struct Estimate {
  std::vector<Segment> segments;
  std::size_t private_bytes = 0;  ///< everything else: code, objects, weights nobody can share
  /// Names the artifact's content wherever the file lies (archive_digest.hpp); "" when it is not known: then nothing is
  /// remembered of the artifact.
  std::string digest = {};
};

/// How a model's weights came into memory.
enum class LoadWay {
  mapped,  ///< pages of the file; nothing was read that nobody asked for
  copied,  ///< by our own reader, into memory of the model's own
  plain,   ///< by the framework's own loader, for files that ours cannot read
};
[[nodiscard]] constexpr std::string_view to_string(LoadWay way) noexcept {
  switch (way) {
    case LoadWay::mapped: return "mapped";
    case LoadWay::copied: return "copied";
    case LoadWay::plain: return "plain";
  }
  return "";
}

/// What a loaded model really holds, as measured.
struct Footprint {
  std::vector<Segment> segments;
  std::size_t private_bytes = 0;  ///< weights nobody else holds, mapped ones too
  std::size_t code_bytes = 0;     ///< graphs, objects and plans that are its own
  std::size_t mapped_bytes = 0;   ///< part of its weights, shared ones too, that is pages of files
  LoadWay way = LoadWay::copied;
  std::string way_reason = {};  ///< why not mapped, or not all of it; empty when there is nothing to say
};

struct LoadContext {
  std::shared_ptr<MemoryGrant> memory;  ///< asked when the load needs more than it was given
  /// What `memory` holds at the start; nullopt: the private bytes that estimate() says.
  std::optional<std::size_t> granted_bytes;
  /// Segments that are charged already, as the estimate named them: what is made for them need not be asked for.
  std::vector<Segment> held_segments;
  std::stop_token stop;     ///< requested when nobody wants the model any more; looked at between records
  bool call_waits = false;  ///< a call waits for the model, and not only somebody who wants it loaded
  /// Set by the loader: most bytes it held of `memory` at once; 0: not known.
  std::size_t peak_bytes = 0;
  /// Set by the loader: work that calls need not wait for. Runs on the same thread once the model was handed over, and
  /// must not keep it alive.
  std::function<void()> afterwards;
};

struct CallContext {
  std::shared_ptr<MemoryGrant> memory;  ///< outputs may keep it alive after the call
  std::size_t granted_bytes = 0;        ///< what `memory` holds at the start
  Deadline deadline = Deadline::max();
  /// Set by the model: most bytes the call held at once, also when it failed.
  std::size_t peak_bytes = 0;
};

/// A model in memory. Destroyed only on the reaper thread.
class Model {
 public:
  virtual ~Model() = default;

  /// Runs the model. Blocking; on a compute thread only. Several threads at once only if stateless().
  /// Errors: invalid_tensor (inputs do not fit the signature), inference_failed (the model raised),
  /// activations (the grant refused to grow). Outputs never alias model storage.
  virtual Result<TensorMap> infer(const TensorMap& inputs, CallContext& context) = 0;

  [[nodiscard]] virtual const Signature& signature() const = 0;
  [[nodiscard]] virtual Footprint footprint() const = 0;
  /// False when a call may write to the model's own state: one call at a time, never batched, shared or run again.
  [[nodiscard]] virtual bool stateless() const = 0;
  /// False for good once it has lost what it computes with: its calls fail, and another load is needed.
  [[nodiscard]] virtual bool usable() const noexcept { return true; }
};

/// Makes models from artifacts. Both members block and run on loader threads only, several at once.
class ModelLoader {
 public:
  virtual ~ModelLoader() = default;

  /// Reads the archive's directory, no weights. Errors: model_broken, settling, internal (I/O).
  [[nodiscard]] virtual Result<Estimate> estimate(const ModelSpec& spec) const = 0;
  /// Errors: model_broken, settling, cannot_fit (the grant refused to grow), internal (I/O).
  [[nodiscard]] virtual Result<std::unique_ptr<Model>> load(const ModelSpec& spec, LoadContext& context) const = 0;
};

}  // namespace mme::loader
