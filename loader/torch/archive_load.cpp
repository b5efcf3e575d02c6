#include "loader/torch/archive_load.hpp"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <optional>
#include <set>
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

constexpr const char* may_write_reason = "it may write to its own state";

/// How the weights came in.
struct Way {
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
    known_written_ = load_.weights.written(load_.spec.artifact);
    if (auto problem = find_code()) return broken(*problem);
    read_any();
    if (auto problem = tensor_out_of_bounds(read_.module, found_.unit != nullptr)) return broken(*problem);
    if (!read_.module.find_method("forward")) return broken("it has no forward");
    read_.module.eval();
    shape_ = shape_of(read_.module._ivalue());
    const WriteReport writes = writes_of(read_.module);
    const WrittenWeights written = written_weights(writes);
    const bool holds_of_others = found_.unit || found_.turn || (weights_ && weights_->took_others());
    if (written.all && holds_of_others) return run_alone();
    settle_weights(written);
    return finish(writes);
  }

 private:
  // --- code

  [[nodiscard]] bool may_share_code() const {
    return load_.options.share && !known_written_.all && !load_.spec.settings.optimize && plain_reason_.empty() &&
           load_.plan.constant_bytes <= most_shared_constants;
  }

  /// Texts of the code records, in the order of the plan.
  std::vector<std::string> read_code() {
    std::vector<std::string> code;
    for (const std::string& record : load_.plan.code) {
      code.push_back(text_of(reader_, record));
      restores_itself_ = restores_itself_ || code.back().find("__setstate__") != std::string::npos;
    }
    return code;
  }

  /// All that compiled code depends on; paid for by the code, which keeps it.
  std::string code_text(const std::vector<std::string>& code) {
    const AccountScope payer(&load_.code_account);
    CodeText text;
    text.add("version", std::to_string(reader_.version()));
    text.add("constants.pkl", text_of(reader_, "constants.pkl"));
    for (const WeightRecord& weight : load_.plan.weights) {
      if (weight.name.starts_with("constants/")) text.add(weight.name, text_of(reader_, weight.name));
    }
    for (std::size_t i = 0; i < code.size(); ++i) text.add(load_.plan.code[i], with_sorted_finals(code[i]));
    return text.take();
  }

  /// Among what is compiled already; what is not is looked over. Returns why it must not be compiled.
  std::optional<std::string> find_code() {
    const auto code = read_code();
    if (may_share_code()) {
      text_ = code_text(code);
      const AccountScope nobody(nullptr);
      if (load_.codes->mistrusts(text_)) {
        known_written_.all = true;
      } else {
        found_ = load_.codes->find(text_, load_.context.stop);
      }
    }
    return found_.unit ? std::nullopt : look_over(code);
  }

  std::optional<std::string> look_over(const std::vector<std::string>& code) {
    for (const std::string& text : code) {
      if (auto problem = problem_in_code(text)) return problem;
      if (calls_old_quantized_conv(text)) plain_reason_ = "old quantized convolution";
    }
    return std::nullopt;
  }

  WriteReport writes_of(const torch::jit::Module& module) {
    // Known from an earlier load; or a call wrote where no write was seen.
    if (known_written_.all) return {true, true, {}, {}};
    const std::vector<at::Tensor> unknown;
    const auto& tensors = shape_ ? shape_->tensors : unknown;
    if (!found_.unit) {
      const AccountScope payer(&code_payer());  // libtorch keeps what it makes of a graph with the graph
      return find_writes(module, tensors);
    }
    if (!shape_) return find_writes(module, tensors);
    if (auto known = found_.unit->report(shape_->text)) return *known;
    WriteReport writes = find_writes(module, tensors);
    const AccountScope nobody(nullptr);
    found_.unit->remember(shape_->text, writes);
    return writes;
  }

  [[nodiscard]] MemoryAccount& code_payer() const { return found_.turn ? load_.code_account : load_.account; }

  /// Once more, holding nothing together with others: it may write to all that it has, constants of its code too.
  Result<LoadedArchive> run_alone() {
    load_.weights.remember_written(load_.spec.artifact, {true, {}});
    if (weights_) weights_->give_up();
    shape_.reset();
    read_ = {};
    weights_.reset();
    found_ = {};
    return Loading(load_).run();
  }

  // --- weights

  /// What a model's own code restores at load may be changed by it, before anybody knows.
  [[nodiscard]] bool may_share_weights() const {
    return load_.options.share && load_.options.map == MapPolicy::leased && !restores_itself_ && !known_written_.all;
  }

  [[nodiscard]] const char* why_nothing_to_map() const {
    if (!known_written_.weights.empty()) return may_write_reason;
    if (load_.plan.weights.empty()) return "no weights";
    if (load_.plan.weights.size() > most_runs) return "too many weights";
    return std::ranges::any_of(load_.plan.weights, &WeightRecord::mappable) ? "all its tensors are part of its code"
                                                                            : "compressed or unaligned";
  }

  /// Maps the weights where that is possible and worth it; else says why not.
  Way map_weights() {
    const bool constants_are_code = found_.unit || found_.turn;
    const WrittenWeights written = known_written_.all ? WrittenWeights() : known_written_;
    auto runs = plan_runs(load_.plan, !constants_are_code, written);
    const bool nothing = runs.empty();
    weights_ =
        std::make_unique<WeightLoad>(WeightLoad::Terms{load_.file, load_.spec.artifact, load_.plan, load_.options.map,
                                                       *load_.context.memory, load_.account, load_.weights},
                                     std::move(runs), written, std::exchange(load_.context.held_segments, {}));
    if (nothing || load_.file.size() < load_.options.map_from) {
      weights_->give_up();
      weights_.reset();
      return {LoadWay::copied, nothing ? why_nothing_to_map() : "small file"};
    }
    shares_weights_ = may_share_weights();
    const std::string why_not = weights_->open(shares_weights_);
    if (!why_not.empty()) {
      weights_.reset();
      return {LoadWay::copied, why_not};
    }
    const auto copied = std::ranges::count(load_.plan.weights, false, &WeightRecord::mappable);
    return {LoadWay::mapped, copied > 0 ? std::to_string(copied) + " weights compressed or unaligned" : ""};
  }

  /// Weights of the plan that lie in the memory which calls may write to.
  [[nodiscard]] WrittenWeights written_weights(const WriteReport& writes) const {
    if (writes.writes_any) return {true, {}};
    std::set<const c10::StorageImpl*> storages;
    for (const std::size_t number : writes.written_tensors) {
      const at::Tensor& tensor = shape_->tensors.at(number);
      if (!tensor.has_storage()) return {true, {}};
      storages.insert(tensor.storage().unsafeGetStorageImpl());
    }
    WrittenWeights written;
    for (std::size_t i = 0; i < read_.storages.size(); ++i) {
      if (storages.contains(read_.storages[i].unsafeGetStorageImpl())) written.weights.push_back(i);
    }
    return written;
  }

  /// A model that writes to its weights could lose a write while its pages are copied out of the file, so that is done
  /// before its first call.
  void let_go_of_file() {
    load_.weights.remember_written(load_.spec.artifact, {true, {}});  // first: a second try then claims all of it
    weights_->keep();
    weights_->own_map()->leave_file();
    way_ = {LoadWay::copied, may_write_reason};
  }

  /// For the same reason, and so that nobody else sees what a call writes.
  void copy_written(const WrittenWeights& written) {
    load_.weights.remember_written(load_.spec.artifact, written);
    std::vector<std::size_t> mapped;
    std::ranges::copy_if(written.weights, std::back_inserter(mapped),
                         [this](std::size_t weight) { return weights_->place(weight).run != nullptr; });
    weights_->let_go_of(written);
    for (const std::size_t weight : mapped) make_own(read_.storages[weight]);
    if (weights_->mapped_bytes() == 0) {
      way_ = {LoadWay::copied, may_write_reason};
    } else {
      way_.reason += (way_.reason.empty() ? "" : ", ") + std::to_string(written.weights.size()) +
                     (written.weights.size() == 1 ? " weight" : " weights") + " that it may write to";
    }
  }

  [[nodiscard]] bool was_changed() const {
    const auto& map = weights_ ? weights_->own_map() : nullptr;
    return map && (map->detached() || map->lost());
  }

  void settle_weights(const WrittenWeights& written) {
    changed_ = was_changed();
    if (!weights_ || changed_) return;
    if (written.all) return let_go_of_file();
    if (!written.weights.empty()) copy_written(written);
    if (shares_weights_) {
      if (weights_->own_map()) weights_->own_map()->seal();
      for (const std::size_t weight : weights_->share()) point_to(read_.storages[weight], weights_->place(weight));
    } else {
      weights_->keep();
    }
    prefault();
  }

  // --- the module

  void read_by_us() {
    way_ = map_weights();
    ArchiveParts parts{reader_, load_.plan, weights_.get(), load_.context.stop};
    if (found_.unit) parts.compiled = found_.unit->compiled;
    if (found_.turn) parts.code_account = &load_.code_account;
    read_ = read_module(parts);
  }

  /// False: it throws, for the reason in `problem`. Throws what means the end of the load.
  bool read_ours(std::string& problem) {
    try {
      read_by_us();
      return true;
    } catch (...) {
      const bool refused = load_.account.refused() || load_.code_account.refused();
      if (refused || load_.context.stop.stop_requested()) throw;
      problem = current_exception_text();
    }
    if (weights_) weights_->give_up();
    weights_.reset();
    return false;
  }

  void read_any() {
    std::string reason = plain_reason_;
    if (reason.empty()) {
      if (read_ours(reason)) return;
      const bool others_code = found_.unit != nullptr;
      found_ = {};
      if (others_code && read_ours(reason)) return;  // the others' code does not do, but our own
      reason = "our own reader failed: " + reason;
    }
    found_ = {};
    way_ = {LoadWay::plain, std::move(reason)};
    read_.module = torch::jit::load(adapter_, at::Device(at::kCPU));
  }

  // --- the end

  /// A call that waits begins at once, and the pages come in beside it; it meets those first that it needs first.
  void prefault() {
    const auto& map = weights_->own_map();
    if (!map || !load_.options.prefault) return;
    if (load_.context.call_waits) {
      load_.context.afterwards = [map = std::weak_ptr<WeightMap>(map)] { WeightMap::prefault_beside(map); };
    } else if (!map->prefault(load_.context.stop)) {
      throw std::runtime_error("given up");
    }
  }

  std::shared_ptr<CodeUnit> new_unit(const torch::jit::Module& module, const WriteReport& writes) {
    const AccountScope payer(&load_.code_account);
    auto unit = std::make_shared<CodeUnit>(load_.codes, std::move(text_));
    unit->compiled = module._ivalue()->compilation_unit();
    unit->segment = {load_.codes->new_key(), 0, true};
    if (shape_) unit->remember(shape_->text, writes);
    return unit;
  }

  Result<LoadedArchive> finish(const WriteReport& writes) {
    // Copied out while `__setstate__` ran, which may write, or cut short: what is there may not be what was saved.
    if (changed_) return being_changed();
    LoadedArchive loaded;
    loaded.code_is_new = found_.turn != nullptr;
    loaded.code = loaded.code_is_new ? new_unit(read_.module, writes) : std::move(found_.unit);
    loaded.turn = std::move(found_.turn);
    loaded.model = std::make_unique<TorchModel>(std::move(read_.module), writes, load_.spec.settings.optimize,
                                                load_.options.step, load_.kept);
    loaded.model->set_way(way_.way, std::move(way_.reason));
    loaded.weights = std::move(weights_);
    return loaded;
  }

  const ArchiveLoad& load_;
  std::shared_ptr<Adapter> adapter_;
  PyTorchStreamReader reader_;
  std::string plain_reason_;             // why only libtorch's own loader will do; "": ours does
  std::string text_;                     // of code that may be shared
  CodePool::Found found_;                // both null: code of its own
  std::unique_ptr<WeightLoad> weights_;  // null: all are copied
  ReadModule read_;
  std::optional<ObjectShape> shape_;  // of its objects; nullopt: it holds what is not looked into
  WrittenWeights known_written_;      // from an earlier load of the artifact, or of its code
  Way way_;
  bool restores_itself_ = false;  // by a __setstate__ in its code
  bool changed_ = false;          // the file, under the load
  bool shares_weights_ = false;   // with whoever has the same, if no call can write to them
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
