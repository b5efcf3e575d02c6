#include "loader/torch/archive_load.hpp"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "loader/torch/bounds_check.hpp"
#include "loader/torch/c10_allocator.hpp"
#include "loader/torch/code_text.hpp"
#include "loader/torch/exception_text.hpp"
#include "loader/torch/model_reader.hpp"
#include "loader/torch/object_shape.hpp"
#include "loader/torch/record_scan.hpp"
#include "loader/torch/state_analysis.hpp"

namespace mme::loader {
namespace {

using caffe2::serialize::PyTorchStreamReader;

/// Tensors inside graphs are part of what makes code equal, and stay on the heap as long as it is used: code with more
/// of them (a frozen model has all its weights there) is not shared.
constexpr std::uint64_t most_constants = std::uint64_t{256} << 10;

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

class Loading {
 public:
  explicit Loading(const ArchiveLoad& load)
      : load_(load), adapter_(std::make_shared<Adapter>(load.file, load.context)), reader_(adapter_) {}

  Result<LoadedArchive> run() {
    for (const std::string& record : load_.plan.pickles) {
      if (auto problem = problem_in_pickle(text_of(reader_, record))) return broken(record + ": " + *problem);
    }
    plain_reason_ = only_plain(load_.plan, reader_);
    find_code();
    if (!found_.unit) {
      if (auto problem = look_over_code()) return broken(*problem);
    }
    ReadModule read = read_any();
    if (auto problem = tensor_out_of_bounds(read.module, found_.unit != nullptr)) return broken(*problem);
    if (!read.module.find_method("forward")) return broken("it has no forward");
    read.module.eval();
    const WriteReport writes = writes_of(read.module);
    if (writes.writes_state && !may_share_code_that_writes()) {
      read = {};
      return run_alone();
    }
    return finish(std::move(read), writes);
  }

 private:
  // --- code

  [[nodiscard]] bool may_share_code() const {
    return load_.options.share && !load_.spec.settings.optimize && plain_reason_.empty() &&
           load_.plan.constant_bytes <= most_constants;
  }

  /// All that compiled code depends on; paid for by the code, which keeps it.
  std::string code_text() {
    const AccountScope payer(&load_.code_account);
    CodeText text;
    text.add("version", std::to_string(reader_.version()));
    text.add("constants.pkl", text_of(reader_, "constants.pkl"));
    for (const WeightRecord& weight : load_.plan.weights) {
      if (weight.name.starts_with("constants/")) text.add(weight.name, text_of(reader_, weight.name));
    }
    for (const std::string& record : load_.plan.code) text.add(record, with_sorted_finals(text_of(reader_, record)));
    return text.take();
  }

  void find_code() {
    if (!may_share_code()) return;
    text_ = code_text();
    const AccountScope nobody(nullptr);
    found_ = load_.codes->find(text_, load_.context.stop);
  }

  /// What must not be compiled, or not by our reader.
  std::optional<std::string> look_over_code() {
    for (const std::string& record : load_.plan.code) {
      const std::string code = text_of(reader_, record);
      if (auto problem = problem_in_code(code)) return problem;
      if (calls_old_quantized_conv(code)) plain_reason_ = "old quantized convolution";
    }
    return std::nullopt;
  }

  WriteReport writes_of(const torch::jit::Module& module) {
    if (!found_.unit) {
      const AccountScope payer(&code_payer());  // libtorch keeps what it makes of a graph with the graph
      return find_writes(module);
    }
    const auto shape = shape_of(module._ivalue());
    if (!shape) return find_writes(module);
    if (auto known = found_.unit->report(*shape)) return *known;
    WriteReport writes = find_writes(module);
    const AccountScope nobody(nullptr);
    found_.unit->remember(*shape, writes);
    return writes;
  }

  [[nodiscard]] MemoryAccount& code_payer() const { return found_.turn ? load_.code_account : load_.account; }

  /// A model that writes to tensors inside its graphs would write to those of the others.
  [[nodiscard]] bool may_share_code_that_writes() const {
    return !(found_.unit || found_.turn) || load_.plan.constant_bytes == 0;
  }

  /// Once more, with code of its own.
  Result<LoadedArchive> run_alone() {
    LoaderOptions alone = load_.options;
    alone.share = false;
    found_ = {};
    return Loading({load_.file, load_.plan, load_.spec, load_.context, alone, load_.codes, load_.account, load_.kept,
                    load_.code_account})
        .run();
  }

  // --- weights

  [[nodiscard]] std::vector<ByteRange> mappable_weights() const {
    const bool constants_are_code = found_.unit || found_.turn;
    std::vector<ByteRange> ranges;
    for (const WeightRecord& weight : load_.plan.weights) {
      const bool in_code = constants_are_code && weight.name.starts_with("constants/");
      if (weight.mappable && !in_code) ranges.push_back(weight.bytes);
    }
    return ranges;
  }

  [[nodiscard]] const char* why_nothing_to_map() const {
    if (load_.plan.weights.empty()) return "no weights";
    return std::ranges::any_of(load_.plan.weights, &WeightRecord::mappable) ? "all its tensors are part of its code"
                                                                            : "compressed or unaligned";
  }

  /// Maps the weights where that is possible and worth it; else says why not.
  void map_weights(ReadModule& read) {
    const ArchivePlan& plan = load_.plan;
    const auto ranges = mappable_weights();
    if (load_.file.size() < load_.options.map_from) {
      read.reason = "small file";
    } else if (total_size(ranges) == 0) {
      read.reason = why_nothing_to_map();
    } else {
      auto made = WeightMap::make(load_.file, ranges, load_.options.map, load_.account);
      read.map = std::move(made.map);
      read.reason = made.why_not;
      if (!read.map) return;
      read.way = LoadWay::mapped;
      std::size_t copied = 0;
      for (const WeightRecord& weight : plan.weights) copied += weight.mappable ? 0 : 1;
      if (copied > 0) read.reason = std::to_string(copied) + " weights compressed or unaligned";
    }
  }

  // --- the module

  ReadModule read_by_us() {
    ReadModule read;
    map_weights(read);
    ArchiveParts parts{reader_, load_.plan, read.map, load_.context.stop};
    if (found_.unit) parts.compiled = found_.unit->compiled;
    if (found_.turn) parts.code_account = &load_.code_account;
    read.module = read_module(parts);
    // A call that waits begins at once, and the pages come in beside it; it meets those first that it needs first.
    const bool now = load_.options.prefault && !load_.context.call_waits;
    if (read.map && now && !read.map->prefault(load_.context.stop)) throw std::runtime_error("given up");
    return read;
  }

  /// By our own reader; what it throws is in `problem`, unless it means the end of the load.
  std::optional<ReadModule> read_ours(std::string& problem) {
    try {
      return read_by_us();
    } catch (...) {
      const bool refused = load_.account.refused() || load_.code_account.refused();
      if (refused || load_.context.stop.stop_requested()) throw;
      problem = current_exception_text();
    }
    return std::nullopt;
  }

  ReadModule read_any() {
    std::string reason = plain_reason_;
    if (reason.empty()) {
      if (auto read = read_ours(reason)) return std::move(*read);
      if (std::exchange(found_, {}).unit) {  // the others' code does not do; our own may
        if (auto read = read_ours(reason)) return std::move(*read);
      }
      reason = "our own reader failed: " + reason;
    }
    found_ = {};
    return {torch::jit::load(adapter_, at::Device(at::kCPU)), nullptr, LoadWay::plain, std::move(reason)};
  }

  // --- the end

  /// A model that writes to its weights could lose a write while its pages are copied out of the file, so that is done
  /// before its first call.
  static void let_go_of_file(ReadModule& read) {
    read.map->leave_file();
    read.way = LoadWay::copied;
    read.reason = "it may write to its own state";
  }

  void prefault_beside_the_call(const std::shared_ptr<WeightMap>& map) const {
    if (!map || !load_.options.prefault || !load_.context.call_waits) return;
    load_.context.afterwards = [map = std::weak_ptr<const WeightMap>(map)] { WeightMap::prefault_beside(map); };
  }

  std::shared_ptr<CodeUnit> new_unit(const torch::jit::Module& module, const WriteReport& writes) {
    const AccountScope payer(&load_.code_account);
    auto unit = std::make_shared<CodeUnit>(load_.codes, std::move(text_));
    unit->compiled = module._ivalue()->compilation_unit();
    unit->segment = {load_.codes->new_key(), 0, true};
    if (const auto shape = shape_of(module._ivalue())) unit->remember(*shape, writes);
    return unit;
  }

  Result<LoadedArchive> finish(ReadModule read, const WriteReport& writes) {
    // Copied out while `__setstate__` ran, which may write, or cut short: what is there may not be what was saved.
    if (read.map && (read.map->detached() || read.map->lost())) return being_changed();
    if (read.map && writes.writes_state) let_go_of_file(read);
    LoadedArchive loaded;
    loaded.code_is_new = found_.turn != nullptr;
    loaded.code = loaded.code_is_new ? new_unit(read.module, writes) : std::move(found_.unit);
    loaded.turn = std::move(found_.turn);
    loaded.model = std::make_unique<TorchModel>(std::move(read.module), writes, load_.spec.settings.optimize,
                                                load_.options.step, load_.kept);
    prefault_beside_the_call(read.map);
    loaded.model->set_way(read.way, std::move(read.reason), std::move(read.map));
    return loaded;
  }

  const ArchiveLoad& load_;
  std::shared_ptr<Adapter> adapter_;
  PyTorchStreamReader reader_;
  std::string plain_reason_;  // why only libtorch's own loader will do; "": ours does
  std::string text_;          // of code that may be shared
  CodePool::Found found_;     // both null: code of its own
};

}  // namespace

Error being_changed() {
  const AccountScope nobody(nullptr);
  return fail(ErrorCode::settling, "the model file is being changed");
}

Error broken(const std::string& why) {
  const AccountScope nobody(nullptr);
  return fail(ErrorCode::model_broken, "the model cannot be loaded: " + std::string(why.c_str()));
}

Result<LoadedArchive> load_archive(const ArchiveLoad& load) {
  const MeteredScope metered(load.account);
  try {
    const torch::jit::GraphOptimizerEnabledGuard optimizer(false);
    return Loading(load).run();
  } catch (const std::bad_alloc&) {
    load.account.mark_refused();
    return broken("there is not enough memory");
  } catch (...) {
    return broken(current_exception_text());
  }
}

}  // namespace mme::loader
