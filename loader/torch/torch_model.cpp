#include "loader/torch/torch_model.hpp"

#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "loader/torch/c10_allocator.hpp"
#include "loader/torch/exception_text.hpp"
#include "loader/torch/output_bridge.hpp"
#include "loader/torch/tensor_bridge.hpp"
#include "loader/torch/torch_runtime.hpp"

namespace mme::loader {
namespace {}  // namespace

TorchModel::TorchModel(torch::jit::Module module, const WriteReport& writes, bool optimize, std::size_t step,
                       std::shared_ptr<KeptBytes> kept)
    : module_(std::move(module)),
      forward_(module_.get_method("forward")),
      signature_(signature_of(forward_.function().getSchema())),
      stateless_(!writes.writes_state),
      copied_arguments_(writes.written_arguments),
      optimize_(optimize),
      step_(step),
      kept_(std::move(kept)) {
  // A stateful model may keep what it is given, and write to it in a later call.
  if (!stateless_) copied_arguments_.assign(forward_.function().getSchema().arguments().size() - 1, true);
}

void TorchModel::set_way(LoadWay way, std::string reason) {
  footprint_.way = way;
  footprint_.way_reason = std::move(reason);
}

void TorchModel::set_maps(std::vector<std::shared_ptr<WeightMap>> maps, std::size_t bytes,
                          std::vector<Segment> shared) {
  if (footprint_.way == LoadWay::mapped) footprint_.mapped_bytes = bytes;
  std::ranges::move(shared, std::back_inserter(footprint_.segments));
  maps_ = std::move(maps);
}

bool TorchModel::lost() const noexcept {
  return std::ranges::any_of(maps_, [](const auto& map) { return map->lost(); });
}

/// Whoever calls again names the new file, which is another artifact, or gets the model loaded anew. `call`: null
/// before there is one.
Error TorchModel::gone(const MemoryAccount* call) const {
  if (call != nullptr && std::ranges::any_of(maps_, [&](const auto& map) { return map->may_be_written_by(*call); })) {
    if (wrote_) wrote_();
    if (code_) code_->mistrust();
  }
  const bool written = std::ranges::any_of(maps_, [](const auto& map) { return map->written(); });
  return fail(ErrorCode::settling, written
                                       ? "the model's weights were written to while it was in use; it is loaded again"
                                       : "the model file was cut short while the model was in use");
}

void TorchModel::on_unseen_write(std::function<void()> wrote) {
  wrote_ = std::move(wrote);
}

void TorchModel::share_code(std::shared_ptr<CodeUnit> code) {
  footprint_.segments.push_back(code->segment);
  code_ = std::move(code);
}

void TorchModel::set_bytes(std::size_t tensors, std::size_t code) {
  footprint_.private_bytes = tensors;
  footprint_.code_bytes = code;
}

Result<TensorMap> TorchModel::infer(const TensorMap& inputs, CallContext& context) {
  enter_torch_thread();
  const auto bound = loader::bind(signature_, inputs);
  if (!bound) return bound.error();
  if (Clock::now() >= context.deadline)
    return fail(ErrorCode::deadline_exceeded, "the deadline passed before the call");
  if (lost()) return gone(nullptr);
  const auto call = MemoryAccount::open(context.memory, context.granted_bytes, step_);
  const auto outputs = MemoryAccount::open_for_outputs(context.memory);
  auto result = run(inputs, *bound, *call, *outputs);
  const AccountBytes sent = outputs->bytes();
  const AccountBytes left = call->bytes();
  context.peak_bytes = std::max(call->peak(), left.tensors + left.objects + sent.tensors + sent.objects);
  const bool refused = call->refused() || outputs->refused();
  close(*call, result.has_value());
  // Last of all: what was computed from pages that are gone looks like any other answer.
  if (lost()) return gone(call.get());
  if (refused) return fail(ErrorCode::activations, "the call needs more memory than there is room for");
  return result;
}

/// What a call leaves behind are the plans of its code; in a stateful model tensors are its state, and objects too once
/// the plans are made.
void TorchModel::close(MemoryAccount& call, bool succeeded) noexcept {
  using Gets = MemoryAccount::CodeGets;
  if (!code_) return call.close_call(kept_);
  if (stateless_) {
    call.close_call(code_->kept(), Gets::all);
  } else {
    call.close_call(kept_, code_->warm() ? Gets::nothing : Gets::objects);
  }
  if (succeeded) code_->set_warm();
}

Result<TensorMap> TorchModel::run(const TensorMap& inputs, const std::vector<Bound>& bound, MemoryAccount& call,
                                  MemoryAccount& outputs) {
  const MeteredScope metered(call);
  const c10::InferenceMode inference(true);  // a model may switch gradients on; that ends with its call
  try {
    return run_unguarded(inputs, bound, call, outputs);
  } catch (const std::bad_alloc&) {
    call.mark_refused();
    const AccountScope nobody(nullptr);
    return fail(ErrorCode::activations, "the call needs more memory than there is");
  } catch (...) {
    const AccountScope nobody(nullptr);
    return fail(ErrorCode::inference_failed, current_exception_text());
  }
}

Result<TensorMap> TorchModel::run_unguarded(const TensorMap& inputs, const std::vector<Bound>& bound,
                                            MemoryAccount& call, MemoryAccount& outputs) {
  const torch::jit::GraphOptimizerEnabledGuard optimizer(optimize_);
  auto arguments = make_arguments(signature_, forward_.function().getSchema(), bound, inputs, copied_arguments_);
  if (!arguments) {
    const AccountScope nobody(nullptr);
    return Error{arguments.error().code, std::string(arguments.error().message.c_str())};
  }
  torch::jit::Method forward = forward_;  // operator() is not const, but only pushes the owner
  const c10::IValue returned = forward(std::move(arguments->values));
  return take_outputs(returned, {arguments->wrapped, call, outputs, stateless_});
}

}  // namespace mme::loader
