#include "loader/torch/state_analysis.hpp"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loader/torch/operator_rules.hpp"
#include "loader/torch/taint.hpp"

namespace mme::loader {
namespace {

namespace jit = torch::jit;
using jit::Block;
using jit::Node;
using jit::Value;

constexpr std::size_t most_steps = 2'000'000;
constexpr int deepest_call = 200;

/// Values of one function's graph as one call site sees them.
using Frame = std::unordered_map<const Value*, Taint>;

/// Follows taints through the graph of forward and of everything it calls, from the real object tree.
/// What is stored in a container or object joins one common `heap_`, and what is read from one, or done to what one
/// holds, may be to any of it; an attribute that is set somewhere has no certain value anywhere. The whole is repeated
/// until no more of either is found.
class Analysis {
 public:
  explicit Analysis(const std::vector<at::Tensor>& tensors) : numbers_(tensors) {}

  WriteReport run(const jit::Module& module) {
    jit::Function& forward = module.get_method("forward").function();
    const std::size_t count = forward.getSchema().arguments().size() - 1;
    report_.written_arguments.assign(count, false);
    Taint before;
    std::size_t set_before = 0;
    do {
      before = heap_;
      set_before = set_attributes_.size();
      std::vector<Taint> arguments(count + 1);
      arguments[0] = of_state(module._ivalue());
      for (std::size_t i = 0; i < count; ++i) arguments[i + 1] = argument(forward.getSchema().arguments()[i + 1], i);
      static_cast<void>(call(&forward, std::move(arguments)));
    } while (!report_.writes_any && !(is_same(before, heap_) && set_before == set_attributes_.size()));
    if (!report_.writes_any) report_.written_tensors = written_.numbers();
    return std::move(report_);
  }

 private:
  /// The same in every call, and the model's own.
  [[nodiscard]] Taint of_state(const c10::IValue& value) const { return {true, numbers_.in(value), 0, value}; }

  /// A default is one value for all calls, and for all models of the code.
  [[nodiscard]] static Taint argument(const c10::Argument& declared, std::size_t number) {
    Taint taint;
    taint.arguments = Taint::bit_of(number);
    const auto& value = declared.default_value();
    taint.state = value && !value->isNone();
    if (taint.state) taint.tensors = StateTensors::any();
    return taint;
  }

  /// The model's own is changed: its tensors' memory only where write() says so.
  void change(const Taint& target) {
    report_.writes_state = report_.writes_state || target.state;
    for (std::size_t i = 0; target.arguments != 0 && i < report_.written_arguments.size(); ++i) {
      if ((target.arguments & Taint::bit_of(i)) != 0) report_.written_arguments[i] = true;
    }
  }

  /// To the memory of the tensors that it may be.
  void write(const Taint& target) {
    change(target);
    if (!target.state) return;
    written_.add(target.tensors, SIZE_MAX);
    report_.writes_any = report_.writes_any || written_.is_any();
  }

  /// What the model holds may be any other from now on.
  void write_any(const Taint& target) {
    change(target);
    report_.writes_any = report_.writes_any || target.state;
  }

  Taint& at(Frame& frame, const Value* value) { return frame[value]; }

  void set(Frame& frame, const Value* value, Taint taint) {
    if (!carries_memory(*value->type())) taint = {false, {}, 0, std::move(taint.exact)};
    frame[value] = std::move(taint);
  }

  /// What it is, and what it may hold.
  Taint memory_of(const Value* value, Frame& frame) {
    Taint all = at(frame, value);
    if (is_container(*value->type())) absorb(all, heap_);
    return all;
  }

  Taint join_inputs(const Node* node, Frame& frame) {
    Taint all;
    for (const Value* input : node->inputs()) absorb(all, memory_of(input, frame));
    return all;
  }

  /// Nothing is known of it: it may write to whatever it gets, and return any of that.
  void unknown(const Node* node, Frame& frame) {
    Taint all = join_inputs(node, frame);
    absorb(all, heap_);
    write_any(all);
    absorb(heap_, all);
    for (const Value* output : node->outputs()) set(frame, output, all);
  }

  /// nullopt: the function cannot be looked into.
  std::optional<std::vector<Taint>> call(jit::Function* function, std::vector<Taint> arguments) {
    auto* known = function != nullptr ? jit::tryToGraphFunction(*function) : nullptr;
    if (known == nullptr) return std::nullopt;
    return call_graph(*known->graph(), std::move(arguments));
  }

  std::optional<std::vector<Taint>> call_graph(const jit::Graph& graph, std::vector<Taint> arguments) {
    if (depth_ >= deepest_call || graph.inputs().size() != arguments.size()) return std::nullopt;
    ++depth_;
    Frame frame;
    for (std::size_t i = 0; i < arguments.size(); ++i) set(frame, graph.inputs()[i], std::move(arguments[i]));
    auto results = block(graph.block(), frame);
    --depth_;
    return results;
  }

  std::vector<Taint> block(const Block* block, Frame& frame) {
    for (const Node* node : block->nodes()) {
      if (report_.writes_any) break;  // nothing can take that back
      if (++steps_ > most_steps) {
        report_.writes_state = report_.writes_any = true;
        break;
      }
      visit(node, frame);
    }
    std::vector<Taint> results;
    for (const Value* output : block->outputs()) results.push_back(at(frame, output));
    return results;
  }

  void set_all(const Node* node, Frame& frame, const std::optional<std::vector<Taint>>& results) {
    if (!results || results->size() != node->outputs().size()) return unknown(node, frame);
    for (std::size_t i = 0; i < results->size(); ++i) set(frame, node->outputs()[i], (*results)[i]);
  }

  void visit(const Node* node, Frame& frame) {
    switch (static_cast<c10::unique_t>(node->kind())) {
      case c10::prim::Constant: return constant(node, frame);
      case c10::prim::GetAttr: return get_attribute(node, frame);
      case c10::prim::SetAttr: return set_attribute(node, frame);
      case c10::prim::CallMethod: return method(node, frame, node->s(c10::attr::name));
      case c10::prim::Enter: return method(node, frame, "__enter__");
      case c10::prim::Exit: return method(node, frame, "__exit__");
      case c10::prim::CallFunction: return function(node, frame);
      case c10::prim::fork: return fork(node, frame);
      case c10::prim::If: return branch(node, frame);
      case c10::prim::Loop: return loop(node, frame);
      case c10::prim::unchecked_cast:
      case c10::prim::unchecked_unwrap_optional: return set(frame, node->output(), at(frame, node->input(0)));
      case c10::prim::TupleConstruct:
      case c10::prim::ListConstruct:
      case c10::prim::DictConstruct:
      case c10::prim::TupleUnpack:
      case c10::prim::TupleIndex:
      case c10::prim::TupleSlice:
      case c10::prim::ListUnpack: return same_memory(node, frame);
      case c10::prim::CreateObject:
      case c10::prim::Uninitialized:
      case c10::prim::isinstance:
      case c10::prim::HasAttr:
      case c10::prim::Print:
      case c10::prim::RaiseException: return fresh(node, frame);
      default: return operation(node, frame);
    }
  }

  void fresh(const Node* node, Frame& frame) {
    for (const Value* output : node->outputs()) set(frame, output, {});
  }

  void same_memory(const Node* node, Frame& frame) {
    const Taint all = join_inputs(node, frame);
    for (const Value* output : node->outputs()) set(frame, output, all);
  }

  /// Constants belong to the graph: all calls, and models that share it, see the same one.
  void constant(const Node* node, Frame& frame) {
    Taint taint{true, StateTensors::any(), 0, std::nullopt};
    if (const auto value = jit::toIValue(node->output())) taint = of_state(*value);
    set(frame, node->output(), std::move(taint));
  }

  void get_attribute(const Node* node, Frame& frame) {
    const Taint& object = at(frame, node->input());
    const std::string& name = node->s(c10::attr::name);
    Taint taint;
    if (object.exact && object.exact->isObject()) {
      taint = of_state(object.exact->toObjectRef().getAttr(name));
      if (set_attributes_.contains(name)) {
        taint.exact.reset();
        absorb(taint, heap_);
      }
    } else {
      absorb(taint, object);
      absorb(taint, heap_);
    }
    set(frame, node->output(), std::move(taint));
  }

  void set_attribute(const Node* node, Frame& frame) {
    const Taint& object = at(frame, node->input(0));
    change(object);
    if (object.state) set_attributes_.insert(node->s(c10::attr::name));
    absorb(heap_, at(frame, node->input(1)));
  }

  void method(const Node* node, Frame& frame, const std::string& name) {
    const Taint& self = at(frame, node->input(0));
    c10::ClassTypePtr type;
    if (self.exact && self.exact->isObject()) {
      type = self.exact->toObjectRef().type();
    } else {
      type = node->input(0)->type()->cast<c10::ClassType>();
    }
    if (!type) return unknown(node, frame);
    std::vector<Taint> arguments;
    for (const Value* input : node->inputs()) arguments.push_back(at(frame, input));
    set_all(node, frame, call(type->findMethod(name), std::move(arguments)));
  }

  void function(const Node* node, Frame& frame) {
    const auto type = node->input(0)->type()->cast<c10::FunctionType>();
    if (!type) return unknown(node, frame);
    std::vector<Taint> arguments;
    for (const Value* input : node->inputs().slice(1)) arguments.push_back(at(frame, input));
    set_all(node, frame, call(type->function(), std::move(arguments)));
  }

  void fork(const Node* node, Frame& frame) {
    if (!node->hasAttribute(c10::attr::Subgraph)) return unknown(node, frame);
    std::vector<Taint> arguments;
    for (const Value* input : node->inputs()) arguments.push_back(at(frame, input));
    set_all(node, frame, call_graph(*node->g(c10::attr::Subgraph), std::move(arguments)));
  }

  void branch(const Node* node, Frame& frame) {
    const Taint& condition = at(frame, node->input());
    if (condition.exact && condition.exact->isBool()) {
      return set_all(node, frame, block(node->blocks()[condition.exact->toBool() ? 0 : 1], frame));
    }
    std::vector<Taint> results = block(node->blocks()[0], frame);
    const std::vector<Taint> others = block(node->blocks()[1], frame);
    for (std::size_t i = 0; i < results.size(); ++i) results[i] = join(results[i], others[i]);
    set_all(node, frame, results);
  }

  /// Inputs: trip count, condition, carried. Body: from (index, carried) to (condition, carried).
  void loop(const Node* node, Frame& frame) {
    const Block* body = node->blocks()[0];
    std::vector<Taint> carried;
    for (const Value* input : node->inputs().slice(2)) carried.push_back(at(frame, input));
    for (bool grew = true; grew && !report_.writes_any;) {
      grew = false;
      for (std::size_t i = 0; i < carried.size(); ++i) set(frame, body->inputs()[i + 1], carried[i]);
      const std::vector<Taint> after = block(body, frame);
      for (std::size_t i = 0; i < carried.size(); ++i) {
        const Taint both = join(carried[i], after[i + 1]);
        grew = grew || !is_same(both, carried[i]);
        carried[i] = both;
      }
    }
    set_all(node, frame, carried);
  }

  void operation(const Node* node, Frame& frame) {
    const c10::FunctionSchema* schema = node->maybeSchema();
    if (schema == nullptr || !node->blocks().empty()) return unknown(node, frame);
    if (points_elsewhere(node->kind().toQualString())) write_any(join_inputs(node, frame));
    declared_writes(node, *schema, frame);
    hidden_writes(node, *schema, frame);
    for (std::size_t i = 0; i < node->outputs().size(); ++i) {
      const bool listed = i < schema->returns().size();
      set(frame, node->outputs()[i],
          result(node, *schema, listed ? schema->returns()[i].alias_info() : nullptr, *node->outputs()[i]->type(),
                 frame));
    }
    fold(node, frame);
  }

  void declared_writes(const Node* node, const c10::FunctionSchema& schema, Frame& frame) {
    for (std::size_t i = 0; i < std::min(schema.arguments().size(), node->inputs().size()); ++i) {
      const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
      if (alias == nullptr) continue;
      if (alias->isWrite()) declared_write(node, node->input(i), frame);
      if (alias->isWildcardAfter()) absorb(heap_, at(frame, node->input(i)));
    }
  }

  void declared_write(const Node* node, const Value* target, Frame& frame) {
    const bool container = is_container(*target->type());
    if (container && changes_container_only(node->kind().toQualString())) {
      write_any(at(frame, target));
    } else {
      write(memory_of(target, frame));
    }
    if (container) absorb(heap_, join_inputs(node, frame));
  }

  void hidden_writes(const Node* node, const c10::FunctionSchema& schema, Frame& frame) {
    const HiddenWrite hidden = hidden_write(node->kind().toQualString());
    if (hidden == HiddenWrite::none) return;
    const std::size_t count = std::min(schema.arguments().size(), node->inputs().size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto& exact = at(frame, node->input(i)).exact;
      if (is_training_flag(schema.arguments()[i].name()) && exact && exact->isBool() && !exact->toBool()) return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Taint argument = memory_of(node->input(i), frame);
      if (hidden == HiddenWrite::everything) write_any(argument);
      if (schema.arguments()[i].name().rfind("running_", 0) == 0) write(argument);
    }
  }

  Taint result(const Node* node, const c10::FunctionSchema& schema, const c10::AliasInfo* alias, const c10::Type& type,
               Frame& frame) {
    Taint taint;
    if (returns_inner_memory(node->kind().toQualString())) {
      taint = join_inputs(node, frame);
      absorb(taint, {true, StateTensors::any(), 0, std::nullopt});
    } else if (alias != nullptr) {
      const bool anything = alias->isWildcardBefore() || alias->isWildcardAfter();
      for (std::size_t i = 0; i < node->inputs().size(); ++i) {
        const bool declared = i < schema.arguments().size() && schema.arguments()[i].alias_info() != nullptr;
        if (anything || declared) absorb(taint, memory_of(node->input(i), frame));
      }
      absorb(taint, anything || is_container(type) ? heap_ : Taint{});
    } else if (may_return_argument(node->kind().toQualString())) {
      taint = join_inputs(node, frame);
    } else if (is_container(type)) {  // a list made of another's elements declares nothing
      taint = join_inputs(node, frame);
      absorb(taint, heap_);
    }
    return taint;
  }

  /// `self.training and self.momentum is None` and the like decide which branch runs, the same in every call.
  void fold(const Node* node, Frame& frame) {
    if (node->outputs().size() != 1 || !is_foldable(node->kind().toQualString())) return;
    if (node->output()->type()->kind() != c10::TypeKind::BoolType) return;
    const bool identity = compares_identity(node->kind().toQualString());
    jit::Stack stack;
    for (const Value* input : node->inputs()) {
      const auto& exact = at(frame, input).exact;
      if (!exact) return;
      // What a list or a tensor holds may change, and differs between models of one shape.
      if (!identity && !(exact->isScalar() || exact->isNone() || exact->isString())) return;
      stack.push_back(*exact);
    }
    try {
      node->getOperation()(stack);
    } catch (const std::exception&) {
      return;  // the call will raise the same
    }
    if (stack.size() == 1) set(frame, node->output(), {false, {}, 0, stack.front()});
  }

  const TensorNumbers numbers_;
  WriteReport report_;
  StateTensors written_;
  Taint heap_;
  std::set<std::string> set_attributes_;
  std::size_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace

WriteReport find_writes(const torch::jit::Module& module, const std::vector<at::Tensor>& tensors) {
  return Analysis(tensors).run(module);
}

}  // namespace mme::loader
