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

/// A file that changes under the reader looks broken; say what it is instead.
Error blame(const ArtifactFile& file, Error error) {
  if (!file.unchanged()) return fail(ErrorCode::settling, "the model file is being changed");
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
  const LoadContext& context;
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

std::optional<std::string> problem_in_records(const ArchivePlan& plan, PyTorchStreamReader& reader) {
  for (const std::string& record : plan.pickles) {
    if (auto problem = problem_in_pickle(text_of(reader, record))) return record + ": " + *problem;
  }
  for (const std::string& record : plan.code) {
    if (auto problem = problem_in_code(text_of(reader, record))) return *problem;
  }
  return std::nullopt;
}

/// Why only libtorch's own loader reads this archive rightly; nullopt when ours does.
std::optional<std::string> only_plain(const ArchivePlan& plan, PyTorchStreamReader& reader) {
  constexpr std::uint64_t first_with_type_tags = 3;
  if (plan.has_json) return "written before pickles were used";
  if (reader.version() < first_with_type_tags) return "file version " + std::to_string(reader.version());
  if (reader.hasRecord("byteorder") && text_of(reader, "byteorder") != "little") return "byte order";
  for (const std::string& record : plan.code) {
    if (calls_old_quantized_conv(text_of(reader, record))) return "old quantized convolution";
  }
  return std::nullopt;
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
  } else if (auto map = WeightMap::make(*loading.opened.file, ranges, loading.account)) {
    read.map = std::move(map);
    read.way = LoadWay::mapped;
    const std::size_t copied = plan.weights.size() - ranges.size();
    if (copied > 0) read.reason = std::to_string(copied) + " weights compressed or unaligned";
  } else {
    read.reason = "the system has no map left";
  }
}

/// By our own reader; what it throws is in `problem`, unless it means the end of the load.
std::optional<ReadModule> read_ours(const Loading& loading, PyTorchStreamReader& reader, std::string& problem) {
  try {
    ReadModule read;
    map_weights(loading, read);
    read.module = read_module({reader, loading.opened.plan, read.map, loading.context.stop});
    if (read.map && loading.options.prefault && !read.map->prefault(loading.context.stop)) {
      throw std::runtime_error("given up");
    }
    return read;
  } catch (...) {
    if (loading.account.refused() || loading.context.stop.stop_requested()) throw;
    problem = current_exception_text();
  }
  return std::nullopt;
}

ReadModule read_any(const Loading& loading, const std::shared_ptr<Adapter>& adapter, PyTorchStreamReader& reader) {
  std::string reason;
  if (auto plain = only_plain(loading.opened.plan, reader)) {
    reason = std::move(*plain);
  } else {
    if (auto read = read_ours(loading, reader, reason)) return std::move(*read);
    reason = "our own reader failed: " + reason;
  }
  return {torch::jit::load(adapter, at::Device(at::kCPU)), nullptr, LoadWay::plain, std::move(reason)};
}

Result<std::unique_ptr<TorchModel>> read_model(const Loading& loading, const std::shared_ptr<KeptBytes>& kept) {
  const torch::jit::GraphOptimizerEnabledGuard optimizer(false);
  const auto adapter = std::make_shared<Adapter>(*loading.opened.file, loading.context);
  PyTorchStreamReader reader(adapter);
  if (auto problem = problem_in_records(loading.opened.plan, reader)) return broken(*problem);
  ReadModule read = read_any(loading, adapter, reader);
  if (auto problem = tensor_out_of_bounds(read.module)) return broken(*problem);
  if (!read.module.find_method("forward")) return broken("it has no forward");
  read.module.eval();
  const WriteReport writes = find_writes(read.module);
  auto model = std::make_unique<TorchModel>(std::move(read.module), writes, loading.spec.settings.optimize,
                                            loading.options.step, kept);
  model->set_way(read.way, std::move(read.reason), read.map ? read.map->bytes() : 0);
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
