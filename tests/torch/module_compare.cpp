#include "tests/torch/module_compare.hpp"

#include <torch/script.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "loader/torch/torch_model.hpp"
#include "scripts/demo/example_models.hpp"
#include "scripts/demo/module_builder.hpp"
#include "tests/models/test_models.hpp"

namespace mme::test {
namespace {

namespace jit = torch::jit;

class Comparison {
 public:
  [[nodiscard]] const std::string& found() const { return found_; }

  void values(const c10::IValue& ours, const c10::IValue& plain, const std::string& where) {
    if (!found_.empty()) return;
    if (ours.tagKind() != plain.tagKind()) return differ(where, ours.tagKind() + " against " + plain.tagKind());
    if (ours.isTensor()) return tensors(ours.toTensor(), plain.toTensor(), where);
    if (ours.isTuple()) return rows(ours.toTupleRef().elements().vec(), plain.toTupleRef().elements().vec(), where);
    if (ours.isList()) return rows(ours.toListRef().vec(), plain.toListRef().vec(), where);
    if (ours.isGenericDict()) return dicts(ours.toGenericDict(), plain.toGenericDict(), where);
    if (ours.isObject()) return objects(ours.toObject(), plain.toObject(), where);
    if (ours.isCapsule()) return;  // compared by the state that its object tells
    if (!(ours == plain)) differ(where, "another value");
  }

  void graphs(const jit::Block* ours, const jit::Block* plain, const std::string& where) {
    auto other = plain->nodes().begin();
    for (const jit::Node* node : ours->nodes()) {
      const jit::Node* twin = *other;
      ++other;
      if (node->kind() != twin->kind()) return differ(where, "another operator");
      if (node->kind() == c10::prim::Constant && !node->outputs().empty()) {
        const auto value = jit::toIValue(node->output());
        const auto twin_value = jit::toIValue(twin->output());
        if (value && twin_value) values(*value, *twin_value, where + " constant");
      }
      for (std::size_t i = 0; i < node->blocks().size(); ++i) graphs(node->blocks()[i], twin->blocks()[i], where);
    }
  }

  /// Addresses seen so far may be used again from now on.
  void forget_addresses() {
    seen_.clear();
    twins_.clear();
  }

  void differ(const std::string& where, const std::string& how) {
    if (found_.empty()) found_ = where + ": " + how;
  }

 private:
  void rows(const std::vector<c10::IValue>& ours, const std::vector<c10::IValue>& plain, const std::string& where) {
    if (ours.size() != plain.size()) return differ(where, "another length");
    for (std::size_t i = 0; i < ours.size(); ++i) values(ours[i], plain[i], where + "[" + std::to_string(i) + "]");
  }

  void dicts(const c10::Dict<c10::IValue, c10::IValue>& ours, const c10::Dict<c10::IValue, c10::IValue>& plain,
             const std::string& where) {
    if (ours.size() != plain.size()) return differ(where, "another size");
    auto other = plain.begin();
    for (const auto& entry : ours) {  // order counts
      values(entry.key(), other->key(), where + " key");
      values(entry.value(), other->value(), where + "{}");
      ++other;
    }
  }

  void objects(const c10::intrusive_ptr<c10::ivalue::Object>& ours,
               const c10::intrusive_ptr<c10::ivalue::Object>& plain, const std::string& where) {
    if (!seen_.insert(ours.get()).second) return;
    if (ours->type()->name() != plain->type()->name()) return differ(where, "another class");
    if (ours->slots().size() != plain->slots().size()) return differ(where, "other attributes");
    for (std::size_t i = 0; i < ours->slots().size(); ++i) {
      const std::string name = where + "." + ours->type()->getAttributeName(i);
      if (ours->type()->getAttributeName(i) != plain->type()->getAttributeName(i)) return differ(name, "another name");
      values(ours->getSlot(i), plain->getSlot(i), name);
    }
    const bool held_by_library = ours->slots().size() == 1 && ours->getSlot(0).isCapsule();
    if (held_by_library && ours->type()->findMethod("__getstate__") != nullptr) {
      values(ours->type()->getMethod("__getstate__")({ours}), plain->type()->getMethod("__getstate__")({plain}),
             where + " state");
    }
  }

  void tensors(const at::Tensor& ours, const at::Tensor& plain, const std::string& where) {
    if (ours.defined() != plain.defined()) return differ(where, "defined and not");
    if (!ours.defined()) return;
    if (ours.scalar_type() != plain.scalar_type() || ours.sizes() != plain.sizes() || ours.layout() != plain.layout() ||
        ours.requires_grad() != plain.requires_grad() || ours.is_conj() != plain.is_conj() ||
        ours.is_inference() != plain.is_inference()) {
      return differ(where, "another form");
    }
    if (ours.layout() == at::kSparse) {
      tensors(ours._indices(), plain._indices(), where + " indices");
      return tensors(ours._values(), plain._values(), where + " values");
    }
    if (ours.strides() != plain.strides() || ours.storage_offset() != plain.storage_offset()) {
      return differ(where, "another layout");
    }
    if (ours.is_quantized()) {
      if (ours.qscheme() != plain.qscheme() || !ours.equal(plain)) return differ(where, "another quantized value");
      return;
    }
    const auto twin = twins_.emplace(ours.storage().unsafeGetStorageImpl(), plain.storage().unsafeGetStorageImpl());
    if (twin.first->second != plain.storage().unsafeGetStorageImpl()) return differ(where, "other neighbours");
    if (ours.storage().nbytes() != plain.storage().nbytes()) return differ(where, "a storage of another size");
    const std::size_t size = ours.storage().nbytes();
    if (size > 0 && std::memcmp(ours.storage().data(), plain.storage().data(), size) != 0) differ(where, "other bytes");
  }

  std::string found_;
  std::set<const void*> seen_;
  std::map<const void*, const void*> twins_;
};

/// Without the places in the author's source, which ours does not read.
std::string text_of(const jit::Graph& graph) {
  static const std::regex place(" # [^\n]*");
  return std::regex_replace(graph.toString(false), place, "");
}

c10::IValue argument(const c10::Argument& wanted, const std::vector<std::int64_t>& shape) {
  const at::Tensor x = shape.empty() ? at::tensor({1.0F, 2.0F}) : at::sin(at::arange(8)).to(at::kFloat).reshape(shape);
  if (wanted.type()->kind() == c10::TypeKind::TensorType) return x;
  if (wanted.type()->kind() == c10::TypeKind::IntType) return 2;
  if (wanted.type()->kind() == c10::TypeKind::FloatType) return 0.5;
  if (wanted.type()->kind() == c10::TypeKind::BoolType) return true;
  if (wanted.type()->kind() == c10::TypeKind::DictType) {
    c10::Dict<std::string, at::Tensor> dict;
    dict.insert("a", x);
    dict.insert("b", x + 1);
    return dict;
  }
  if (wanted.type()->isSubtypeOf(*c10::ListType::ofTensors())) return c10::List<at::Tensor>({x, x});
  if (wanted.type()->isSubtypeOf(*c10::ListType::ofStrings())) return c10::List<std::string>({"q"});
  return {};
}

void compare_answers(jit::Module ours, jit::Module plain, const std::vector<std::int64_t>& shape, Comparison& into) {
  std::vector<c10::IValue> inputs;
  const auto& schema = plain.get_method("forward").function().getSchema();
  for (std::size_t i = 1; i < schema.arguments().size(); ++i) inputs.push_back(argument(schema.arguments()[i], shape));
  for (int call = 0; call < 2; ++call) {
    const auto run = [&](jit::Module& module, std::string& problem) {
      try {
        return c10::IValue(module.forward(inputs)).deepcopy();
      } catch (const std::exception&) {
        problem = "raised";
        return c10::IValue();
      }
    };
    std::string our_problem, plain_problem;
    const c10::IValue answer = run(ours, our_problem), plain_answer = run(plain, plain_problem);
    if (our_problem != plain_problem) into.differ("answer", "one raised");
    into.forget_addresses();
    into.values(answer, plain_answer, "answer");
  }
}

}  // namespace

std::string difference_from_plain(const loader::Model& model, const std::string& file,
                                  const std::vector<std::int64_t>& shape) {
  const jit::GraphOptimizerEnabledGuard plain_executor(false);
  const jit::Module& ours = static_cast<const loader::TorchModel&>(model).module();
  jit::Module plain = jit::load(file, at::Device(at::kCPU));
  plain.eval();
  Comparison comparison;
  const auto graph = ours.get_method("forward").graph(), plain_graph = plain.get_method("forward").graph();
  if (text_of(*graph) != text_of(*plain_graph)) comparison.differ("forward", "another graph");
  comparison.graphs(graph->block(), plain_graph->block(), "forward");
  comparison.values(ours._ivalue(), plain._ivalue(), "self");
  if (comparison.found().empty()) compare_answers(ours, plain, shape, comparison);
  return comparison.found();
}

std::vector<std::string> write_example_kinds(const std::string& folder) {
  std::vector<std::string> files;
  const auto write = [&](const models::Example& example) {
    files.push_back(folder + "/" + example.name + ".pt");
    models::save(example.module, files.back());
  };
  write(models::make_text_classifier({"text", "", 3, 7}));
  write(models::make_digit_reader());
  write(models::make_product_recognizer());
  write(models::make_recommender("recommender", "", 100, 200, 3));
  write(models::make_sentence_embedder());
  write(models::make_pair_similarity());
  write(models::make_scorer("scorer", "", {8, 16, 1}, 5));
  write(models::make_forecaster());
  write(models::make_anomaly_detector());
  write(models::make_counter());
  return files;
}

std::vector<std::string> write_safe_test_models(const std::string& folder) {
  models::make_plain_models(folder);
  models::make_weighted_models(folder, false);
  models::make_hostile_models(folder);
  // Endless, huge or slow; or with answers that depend on what ran before.
  const std::set<std::string> left_out = {
      "loop",       "wr",     "rd",     "slow",    "slowload", "slowload_short", "loopload", "growload", "growslow32",
      "growfail32", "wrload", "peak1g", "hugeout", "spin32",   "grads",          "rands",    "seeds"};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!left_out.contains(entry.path().stem().string())) files.push_back(entry.path().string());
  }
  return files;
}

}  // namespace mme::test
