#include "loader/torch/torch_loader.hpp"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "loader/torch/archive_check.hpp"
#include "loader/torch/artifact_file.hpp"
#include "loader/torch/bounds_check.hpp"
#include "loader/torch/c10_allocator.hpp"
#include "loader/torch/exception_text.hpp"
#include "loader/torch/model_reader.hpp"
#include "loader/torch/record_scan.hpp"
#include "loader/torch/state_analysis.hpp"
#include "loader/torch/torch_model.hpp"
#include "loader/torch/torch_runtime.hpp"

namespace mme::loader {
namespace {

/// libtorch's view of the file; where a load that nobody wants any more ends.
class Adapter final : public caffe2::serialize::ReadAdapterInterface {
 public:
  Adapter(const ArtifactFile& file, const LoadContext& context) : file_(file), context_(context) {}

  std::size_t size() const override { return file_.size(); }
  std::size_t read(std::uint64_t offset, void* into, std::size_t count, const char*) const override {
    if (context_.stop.stop_requested()) throw std::runtime_error("given up");
    return file_.read(offset, {static_cast<std::byte*>(into), count}) ? count : 0;
  }

 private:
  const ArtifactFile& file_;
  const LoadContext& context_;
};

struct Opened {
  std::unique_ptr<ArtifactFile> file;
  ArchivePlan plan;
};

Error being_changed() {
  const AccountScope nobody(nullptr);
  return fail(ErrorCode::settling, "the model file is being changed");
}

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

Estimate estimate_of(const ArchivePlan& plan) {
  Estimate estimate;
  if (__builtin_add_overflow(plan.weight_bytes, plan.code_bytes, &estimate.private_bytes)) {
    estimate.private_bytes = SIZE_MAX;
  }
  return estimate;
}

using caffe2::serialize::PyTorchStreamReader;

/// One load, from the open file to the module.
struct Loading {
  const Opened& opened;
  const ModelSpec& spec;
  LoadContext& context;
  const LoaderOptions& options;
  MemoryAccount& account;
};

struct ReadModule {
  torch::jit::Module module;
  std::shared_ptr<WeightMap> map = nullptr;
  LoadWay way = LoadWay::copied;
  std::string reason = {};
};

std::string text_of(PyTorchStreamReader& reader, const std::string& record) {
  const auto [data, size] = reader.getRecord(record);
  return {static_cast<const char*>(data.get()), size};
}

/// Why only libtorch's own loader reads this archive rightly, as far as the code does not say; "" when ours does.
std::string only_plain(const ArchivePlan& plan, PyTorchStreamReader& reader) {
  constexpr std::uint64_t first_with_type_tags = 3;
  if (plan.has_json) return "written before pickles were used";
  if (reader.version() < first_with_type_tags) return "file version " + std::to_string(reader.version());
  if (reader.hasRecord("byteorder") && text_of(reader, "byteorder") != "little") return "byte order";
  return "";
}

/// What a look over the records that libtorch parses says.
struct RecordLook {
  std::optional<std::string> problem;  ///< it must not be parsed
  std::string plain_reason;            ///< only libtorch's own loader reads it rightly; "" when ours does
};

RecordLook look_over(const ArchivePlan& plan, PyTorchStreamReader& reader) {
  RecordLook look{std::nullopt, only_plain(plan, reader)};
  for (const std::string& record : plan.pickles) {
    if (auto problem = problem_in_pickle(text_of(reader, record))) return {record + ": " + *problem, ""};
  }
  for (const std::string& record : plan.code) {
    const std::string code = text_of(reader, record);
    if (auto problem = problem_in_code(code)) return {std::move(problem), ""};
    if (calls_old_quantized_conv(code)) look.plain_reason = "old quantized convolution";
  }
  return look;
}

Error broken(std::string what) {
  const AccountScope nobody(nullptr);
  return fail(ErrorCode::model_broken, "the model cannot be loaded: " + std::string(what.c_str()));
}

std::vector<ByteRange> mappable_weights(const ArchivePlan& plan) {
  std::vector<ByteRange> ranges;
  for (const WeightRecord& weight : plan.weights) {
    if (weight.mappable) ranges.push_back(weight.bytes);
  }
  return ranges;
}

/// Maps the weights where that is possible and worth it; else says why not.
void map_weights(const Loading& loading, ReadModule& read) {
  const ArchivePlan& plan = loading.opened.plan;
  const auto ranges = mappable_weights(plan);
  if (loading.opened.file->size() < loading.options.map_from) {
    read.reason = "small file";
  } else if (total_size(ranges) == 0) {
    read.reason = plan.weights.empty() ? "no weights" : "compressed or unaligned";
  } else {
    auto made = WeightMap::make(*loading.opened.file, ranges, loading.options.map, loading.account);
    read.map = std::move(made.map);
    read.reason = made.why_not;
    if (!read.map) return;
    read.way = LoadWay::mapped;
    const std::size_t copied = plan.weights.size() - ranges.size();
    if (copied > 0) read.reason = std::to_string(copied) + " weights compressed or unaligned";
  }
}

/// By our own reader; what it throws is in `problem`, unless it means the end of the load.
std::optional<ReadModule> read_ours(const Loading& loading, PyTorchStreamReader& reader, std::string& problem) {
  try {
    ReadModule read;
    map_weights(loading, read);
    read.module = read_module({reader, loading.opened.plan, read.map, loading.context.stop});
    // A call that waits begins at once, and the pages come in beside it; it meets those first that it needs first.
    const bool now = loading.options.prefault && !loading.context.call_waits;
    if (read.map && now && !read.map->prefault(loading.context.stop)) throw std::runtime_error("given up");
    return read;
  } catch (...) {
    if (loading.account.refused() || loading.context.stop.stop_requested()) throw;
    problem = current_exception_text();
  }
  return std::nullopt;
}

ReadModule read_any(const Loading& loading, const std::shared_ptr<Adapter>& adapter, PyTorchStreamReader& reader,
                    std::string reason) {
  if (reason.empty()) {
    if (auto read = read_ours(loading, reader, reason)) return std::move(*read);
    reason = "our own reader failed: " + reason;
  }
  return {torch::jit::load(adapter, at::Device(at::kCPU)), nullptr, LoadWay::plain, std::move(reason)};
}

/// A model that writes to its weights could lose a write while its pages are copied out of the file, so that is done
/// before its first call.
void let_go_of_file(ReadModule& read) {
  read.map->leave_file();
  read.way = LoadWay::copied;
  read.reason = "it may write to its own state";
}

Result<std::unique_ptr<TorchModel>> read_model(const Loading& loading, const std::shared_ptr<KeptBytes>& kept) {
  const torch::jit::GraphOptimizerEnabledGuard optimizer(false);
  const auto adapter = std::make_shared<Adapter>(*loading.opened.file, loading.context);
  PyTorchStreamReader reader(adapter);
  RecordLook look = look_over(loading.opened.plan, reader);
  if (look.problem) return broken(*look.problem);
  ReadModule read = read_any(loading, adapter, reader, std::move(look.plain_reason));
  if (auto problem = tensor_out_of_bounds(read.module)) return broken(*problem);
  if (!read.module.find_method("forward")) return broken("it has no forward");
  read.module.eval();
  const WriteReport writes = find_writes(read.module);
  // Copied out while `__setstate__` ran, which may write, or cut short: what is there may not be what was saved.
  if (read.map && (read.map->detached() || read.map->lost())) return being_changed();
  if (read.map && writes.writes_state) let_go_of_file(read);
  auto model = std::make_unique<TorchModel>(std::move(read.module), writes, loading.spec.settings.optimize,
                                            loading.options.step, kept);
  if (read.map && loading.options.prefault && loading.context.call_waits) {
    loading.context.afterwards = [map = std::weak_ptr<const WeightMap>(read.map)] { WeightMap::prefault_beside(map); };
  }
  model->set_way(read.way, std::move(read.reason), std::move(read.map));
  return model;
}

Result<std::unique_ptr<TorchModel>> read_guarded(const Loading& loading, const std::shared_ptr<KeptBytes>& kept) {
  const MeteredScope metered(loading.account);
  try {
    return read_model(loading, kept);
  } catch (const std::bad_alloc&) {
    loading.account.mark_refused();
    return broken("there is not enough memory");
  } catch (...) {
    return broken(current_exception_text());
  }
}

/// Why a load that failed did so; `error` is what it looks like.
Error reason_of(const Opened& opened, const LoadContext& context, const MemoryAccount& account, Error error) {
  if (account.refused())
    return fail(ErrorCode::cannot_fit, "the model needs more memory to load than there is room for");
  if (context.stop.stop_requested()) return fail(ErrorCode::conflict, "the model was unloaded while it was loading");
  return blame(*opened.file, std::move(error));
}

}  // namespace

Result<Estimate> TorchLoader::estimate(const ModelSpec& spec) const {
  const auto opened = open_archive(spec.artifact);
  if (!opened) return opened.error();
  return estimate_of(opened->plan);
}

Result<std::unique_ptr<Model>> TorchLoader::load(const ModelSpec& spec, LoadContext& context) const {
  enter_torch_thread();
  const auto opened = open_archive(spec.artifact);
  if (!opened) return opened.error();
  const Estimate estimate = estimate_of(opened->plan);
  const auto kept = std::make_shared<KeptBytes>();
  const auto account = MemoryAccount::open(context.memory, estimate.private_bytes, options_.step);
  auto model = read_guarded({*opened, spec, context, options_, *account}, kept);
  const bool refused = account->refused() || !opened->file->unchanged();
  if (!model || refused) {
    const Error error = reason_of(*opened, context, *account, model ? broken("it changed") : model.error());
    model = error;  // what was read goes before the account is closed
    account->close_load(kept);
    return error;
  }
  const AccountBytes held = account->close_load(kept);
  (*model)->set_bytes(held.tensors, objects_are_metered() ? held.objects : opened->plan.code_bytes);
  return std::unique_ptr<Model>(std::move(*model));
}

}  // namespace mme::loader
