#include "loader/torch/torch_loader.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "loader/torch/archive_check.hpp"
#include "loader/torch/archive_load.hpp"
#include "loader/torch/artifact_file.hpp"
#include "loader/torch/torch_runtime.hpp"

namespace mme::loader {
namespace {

struct Opened {
  std::unique_ptr<ArtifactFile> file;
  ArchivePlan plan;
};

/// A file that changes under the reader looks broken; say what it is instead.
Error blame(const ArtifactFile& file, Error error) {
  if (!file.unchanged()) return being_changed();
  if (file.failed()) return fail(ErrorCode::internal, "the model file could not be read");
  return error;
}

Result<Opened> open_archive(const ArtifactId& id) {
  auto file = ArtifactFile::open(id);
  if (!file) return file.error();
  const auto directory = read_zip_directory((*file)->source());
  if (!directory) return blame(**file, directory.error());
  auto plan = plan_archive(*directory);
  if (!plan) return blame(**file, plan.error());
  return Opened{std::move(*file), std::move(*plan)};
}

/// Room for one account out of another's, until it is let go.
class RoomOf final : public MemoryGrant {
 public:
  explicit RoomOf(MemoryAccount& account) noexcept : account_(account) {}
  ~RoomOf() override { account_.release(taken_.load(), BlockKind::tensor); }
  RoomOf(const RoomOf&) = delete;
  RoomOf& operator=(const RoomOf&) = delete;

  bool grow(std::size_t bytes) noexcept override {
    if (!account_.charge(bytes, BlockKind::tensor)) return false;
    taken_.fetch_add(bytes);
    return true;
  }
  void shrink(std::size_t bytes) noexcept override {
    taken_.fetch_sub(bytes);
    account_.release(bytes, BlockKind::tensor);
  }
  void keep(std::size_t) noexcept override {}

 private:
  MemoryAccount& account_;
  std::atomic<std::size_t> taken_{0};
};

/// The accounts of one load, and what becomes of them when it ends. What is compiled is counted by itself, for it may
/// outlive the model, but out of the same room.
class Accounts {
 public:
  Accounts(LoadContext& context, std::size_t granted, std::size_t step)
      : model_(MemoryAccount::open(context.memory, granted, step)),
        code_(MemoryAccount::open(std::make_shared<RoomOf>(*model_), 0, 1)) {}

  [[nodiscard]] MemoryAccount& code() const noexcept { return *code_; }
  [[nodiscard]] MemoryAccount& model() const noexcept { return *model_; }
  [[nodiscard]] const std::shared_ptr<KeptBytes>& kept() const noexcept { return kept_; }
  [[nodiscard]] bool refused() const noexcept { return code_->refused() || model_->refused(); }

  /// After what was loaded is gone.
  void close_failed() {
    code_->close_load(kept_);
    model_->close_load(kept_);
  }

  void close(LoadedArchive& loaded, const ArchivePlan& plan, CodePool& codes) {
    if (loaded.weights) {  // what the cache charges from now on is no longer the account's
      auto shared = loaded.weights->hand_to_cache();
      loaded.model->set_maps(loaded.weights->maps(), loaded.weights->mapped_bytes(), std::move(shared));
      loaded.weights.reset();
    }
    const AccountBytes code = code_->close_load(loaded.code_is_new ? loaded.code->kept() : kept_);
    const AccountBytes held = model_->close_load(kept_);
    std::size_t objects = held.objects;
    if (loaded.code_is_new) {
      loaded.code->segment.bytes = objects_are_metered() ? code.tensors + code.objects : plan.code_bytes;
      codes.publish(loaded.code);
    } else {
      objects += code.tensors + code.objects;
    }
    if (!objects_are_metered()) objects = loaded.code ? plan.object_bytes : plan.code_bytes;
    if (loaded.code) codes.remember(plan.code_fingerprint, loaded.code);
    if (loaded.code) loaded.model->share_code(std::move(loaded.code));
    loaded.model->set_bytes(held.tensors, objects);
  }

 private:
  std::shared_ptr<KeptBytes> kept_ = std::make_shared<KeptBytes>();
  MemoryAccount::Handle model_;
  MemoryAccount::Handle code_;
};

/// Why a load that failed did so; `error` is what it looks like.
Error reason_of(const Opened& opened, const LoadContext& context, const Accounts& accounts, Error error) {
  if (accounts.refused())
    return fail(ErrorCode::cannot_fit, "the model needs more memory to load than there is room for");
  if (context.stop.stop_requested()) return fail(ErrorCode::conflict, "the model was unloaded while it was loading");
  return blame(*opened.file, std::move(error));
}

std::size_t plus(std::size_t a, std::size_t b) {
  std::size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

}  // namespace

TorchLoader::TorchLoader(LoaderOptions options)
    : options_(options), codes_(std::make_shared<CodePool>()), weights_(std::make_shared<WeightPool>()) {}

/// A guess about what will be shared is as good as any: what turns out otherwise is asked for.
Estimate TorchLoader::estimate_of(const ArchivePlan& plan, const ModelSpec& spec) const {
  Estimate estimate;
  const bool shares = options_.share && !spec.settings.optimize;
  if (const auto code = shares ? codes_->guess(plan.code_fingerprint) : std::nullopt) {
    estimate.segments.push_back(*code);
    estimate.private_bytes = plan.object_bytes;
  } else {
    estimate.private_bytes = plan.code_bytes;
  }
  std::size_t copied = plan.weight_bytes;
  const bool maps = options_.map == MapPolicy::leased && spec.artifact.size >= options_.map_from;
  const WrittenWeights written = weights_->written(spec.artifact);
  if (options_.share && maps && !written.all) {
    const auto runs = plan_runs(plan, !shares || plan.constant_bytes > most_shared_constants, written);
    for (const RunPlan& run : runs) {
      estimate.segments.push_back({weights_->likely_key(spec.artifact, run), run.bytes});
      copied -= std::min<std::size_t>(copied, run.span.size);
      for (const std::size_t weight : run.weights)
        copied += written.contains(weight) ? plan.weights[weight].bytes.size : 0;
    }
  }
  estimate.private_bytes = plus(estimate.private_bytes, copied);
  estimate.digest = plan.digest;
  return estimate;
}

Result<Estimate> TorchLoader::estimate(const ModelSpec& spec) const {
  const auto opened = open_archive(spec.artifact);
  if (!opened) return opened.error();
  return estimate_of(opened->plan, spec);
}

Result<std::unique_ptr<Model>> TorchLoader::load(const ModelSpec& spec, LoadContext& context) const {
  enter_torch_thread();
  const auto opened = open_archive(spec.artifact);
  if (!opened) return opened.error();
  const ArchivePlan& plan = opened->plan;
  if (!context.granted_bytes) {
    Estimate estimate = estimate_of(plan, spec);
    context.granted_bytes = estimate.private_bytes;
    context.held_segments = std::move(estimate.segments);
  }
  Accounts accounts(context, *context.granted_bytes, options_.step);
  auto loaded = load_archive({*opened->file, plan, spec, context, options_, codes_, *weights_, accounts.model(),
                              accounts.kept(), accounts.code()});
  const bool refused = accounts.refused() || !opened->file->unchanged();
  if (!loaded || refused) {
    const Error error = reason_of(*opened, context, accounts, loaded ? broken("it changed") : loaded.error());
    loaded = error;  // what was read goes before the accounts are closed
    accounts.close_failed();
    return error;
  }
  (*loaded).model->on_unseen_write([pool = weights_, artifact = spec.artifact] {
    pool->remember_written(artifact, {true, {}});
  });
  context.peak_bytes = accounts.model().peak();
  accounts.close(*loaded, plan, *codes_);
  return std::unique_ptr<Model>(std::move(loaded->model));
}

}  // namespace mme::loader
