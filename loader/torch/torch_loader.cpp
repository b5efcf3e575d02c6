#include "loader/torch/torch_loader.hpp"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "loader/torch/archive_check.hpp"
#include "loader/torch/artifact_file.hpp"
#include "loader/torch/bounds_check.hpp"
#include "loader/torch/c10_allocator.hpp"
#include "loader/torch/exception_text.hpp"
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

std::optional<std::string> problem_in_records(const ArchivePlan& plan, const std::shared_ptr<Adapter>& adapter) {
  caffe2::serialize::PyTorchStreamReader reader(adapter);
  const auto text = [&](const std::string& record) {
    auto [data, size] = reader.getRecord(record);
    return std::pair(std::move(data), size);
  };
  for (const std::string& record : plan.pickles) {
    const auto [data, size] = text(record);
    if (auto problem = problem_in_pickle({static_cast<const char*>(data.get()), size})) return record + ": " + *problem;
  }
  for (const std::string& record : plan.code) {
    const auto [data, size] = text(record);
    if (auto problem = problem_in_code({static_cast<const char*>(data.get()), size})) return *problem;
  }
  return std::nullopt;
}

Error broken(std::string what) {
  const AccountScope nobody(nullptr);
  return fail(ErrorCode::model_broken, "the model cannot be loaded: " + std::string(what.c_str()));
}

Result<std::unique_ptr<TorchModel>> read_model(const Opened& opened, const ModelSpec& spec, const LoadContext& context,
                                               std::size_t step, const std::shared_ptr<KeptBytes>& kept) {
  const torch::jit::GraphOptimizerEnabledGuard optimizer(false);
  const auto adapter = std::make_shared<Adapter>(*opened.file, context);
  if (auto problem = problem_in_records(opened.plan, adapter)) return broken(*problem);
  torch::jit::Module module = torch::jit::load(adapter, at::Device(at::kCPU));
  if (auto problem = tensor_out_of_bounds(module)) return broken(*problem);
  if (!module.find_method("forward")) return broken("it has no forward");
  module.eval();
  const WriteReport writes = find_writes(module);
  return std::make_unique<TorchModel>(std::move(module), writes, spec.settings.optimize, step, kept);
}

Result<std::unique_ptr<TorchModel>> read_guarded(const Opened& opened, const ModelSpec& spec,
                                                 const LoadContext& context, MemoryAccount& account, std::size_t step,
                                                 const std::shared_ptr<KeptBytes>& kept) {
  const MeteredScope metered(account);
  try {
    return read_model(opened, spec, context, step, kept);
  } catch (const std::bad_alloc&) {
    account.mark_refused();
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
  const auto account = MemoryAccount::open(context.memory, estimate.private_bytes, step_);
  auto model = read_guarded(*opened, spec, context, *account, step_, kept);
  const bool refused = account->refused() || !opened->file->unchanged();
  if (!model || refused) {
    const Error error = reason_of(*opened, context, *account, model ? broken("it changed") : model.error());
    model = error;  // what was read goes before the account is closed
    account->close_load(kept);
    return error;
  }
  const AccountBytes held = account->close_load(kept);
  Footprint footprint;
  footprint.private_bytes = held.tensors;
  footprint.code_bytes = objects_are_metered() ? held.objects : opened->plan.code_bytes;
  (*model)->set_footprint(std::move(footprint));
  return std::unique_ptr<Model>(std::move(*model));
}

}  // namespace mme::loader
