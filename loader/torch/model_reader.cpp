#include "loader/torch/model_reader.hpp"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import_source.h>
#include <torch/csrc/jit/serialization/storage_context.h>
#include <torch/csrc/jit/serialization/unpickler.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mme::loader {
namespace {

namespace jit = torch::jit;

using RunHold = std::shared_ptr<WeightRun>;

void drop_run_hold(void* hold) {
  delete static_cast<RunHold*>(hold);
}

/// A storage that lies in a run and keeps it.
c10::DataPtr mapped(const WeightPlace& place) {
  auto hold = std::make_unique<RunHold>(place.run);
  std::byte* data = place.run->data(place.number);
  return {data, hold.release(), &drop_run_hold, at::Device(at::kCPU)};
}

/// Both methods, or none: an object is saved either by its own words or slot by slot.
bool has_own_state(const c10::ClassType& type) {
  if (type.findMethod("__getstate__") == nullptr) return false;
  const jit::Function* restore = type.findMethod("__setstate__");
  if (restore == nullptr) return false;
  const auto& schema = restore->getSchema();
  TORCH_CHECK(schema.arguments().size() == 2 && schema.returns().size() == 1,
              "'__setstate__' must take self and state");
  return true;
}

/// `__setstate__` must leave no attribute unset, unless None is a value of it.
void check_set(const c10::ivalue::Object& object) {
  const auto type = object.type();
  for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
    const bool may_be_none = c10::NoneType::get()->isSubtypeOf(*type->getAttribute(slot));
    TORCH_CHECK(may_be_none || !object.getSlot(slot).isNone(), "the attribute '", type->getAttributeName(slot),
                "' was left uninitialized by '__setstate__'");
  }
}

c10::intrusive_ptr<c10::ivalue::Object> make_object(const c10::StrongTypePtr& type, c10::IValue state) {
  const auto object_type = type.type_->expect<c10::ClassType>();
  const std::size_t slots = object_type->numAttributes();
  auto object = c10::ivalue::Object::create(type, slots);
  if (has_own_state(*object_type)) {
    // Optimised plans would be made for the empty object and then used for the full one.
    const jit::GraphOptimizerEnabledGuard plain(false);
    object_type->getMethod("__setstate__")({object, std::move(state)});
    check_set(*object);
    return object;
  }
  const auto attributes = std::move(state).toGenericDict();
  for (std::size_t slot = 0; slot < slots; ++slot) {
    object->setSlot(slot, attributes.at(object_type->getAttributeName(slot)));
  }
  return object;
}

/// Makes an account pay until its end; null: nothing changes.
class CodePayer {
 public:
  explicit CodePayer(MemoryAccount* account) {
    if (account != nullptr) scope_.emplace(account);
  }

 private:
  std::optional<AccountScope> scope_;
};

class ModelReader {
 public:
  explicit ModelReader(const ArchiveParts& parts)
      : parts_(parts),
        unit_(parts.compiled ? parts.compiled : std::make_shared<jit::CompilationUnit>()),
        source_(
            unit_, &constants_, [this](const std::string& qualifier) { return code_of(qualifier); },
            parts.reader.version()) {
    storages_.resize(parts.plan.weights.size());
  }

  ReadModule read() {
    if (!parts_.compiled) read_constants();
    const c10::IValue data = unpickle("data");
    TORCH_CHECK(data.isObject(), "the archive holds no module");
    return {jit::Module(data.toObject()), std::move(storages_)};
  }

 private:
  void read_constants() {
    const CodePayer payer(parts_.code_account);
    const c10::IValue constants = unpickle("constants");
    for (const c10::IValue& constant : constants.toTupleRef().elements()) constants_.push_back(constant);
  }

  /// Only what is there: code that others run is not added to.
  jit::TypePtr compiled_type(const c10::QualifiedName& name) {
    if (jit::TypePtr built_in = torch::getCustomClass(name.qualifiedName())) return built_in;
    jit::TypePtr type = unit_->get_type(name);
    TORCH_CHECK(type, "a class that other models of this code did not need");
    return type;
  }

  jit::TypePtr type_of(const c10::QualifiedName& name) {
    if (parts_.compiled) return compiled_type(name);
    const CodePayer payer(parts_.code_account);
    return source_.loadType(name);
  }

  void check_wanted() const {
    if (parts_.stop.stop_requested()) throw std::runtime_error("given up");
  }

  /// The file of a class: `__torch__.a.B` is in code/__torch__/a.py. Without its debug record, which takes three times
  /// the memory of all the rest of a small model.
  std::shared_ptr<jit::Source> code_of(const std::string& qualifier) {
    std::string record = "code/" + qualifier + ".py";
    std::replace(record.begin() + 5, record.end() - 3, '.', '/');
    if (!std::ranges::binary_search(parts_.plan.code, record)) return nullptr;
    check_wanted();
    const auto [bytes, size] = parts_.reader.getRecord(record);
    return std::make_shared<jit::Source>(std::string(static_cast<const char*>(bytes.get()), size), record, 1);
  }

  /// Every tensor storage of one folder, by the name that the pickle has for it. constants.pkl and data.pkl use the
  /// same names for different storages, so each has a folder and a context of its own.
  std::shared_ptr<jit::DeserializationStorageContext> storages(const std::string& folder) {
    auto context = std::make_shared<jit::DeserializationStorageContext>();
    for (std::size_t i = 0; i < parts_.plan.weights.size(); ++i) {
      const std::string& name = parts_.plan.weights[i].name;
      if (!name.starts_with(folder)) continue;
      check_wanted();
      auto [data, size] = bytes_of(i);
      storages_[i] = c10::Storage(c10::Storage::use_byte_size_t(), size, std::move(data), nullptr, false);
      context->addStorage(name.substr(folder.size()), storages_[i]);
    }
    return context;
  }

  std::pair<c10::DataPtr, std::size_t> bytes_of(std::size_t index) {
    const WeightRecord& weight = parts_.plan.weights[index];
    if (weight.bytes.size == 0) return {c10::DataPtr(nullptr, at::Device(at::kCPU)), 0};
    const WeightPlace place = parts_.weights != nullptr ? parts_.weights->place(index) : WeightPlace{};
    if (place.run) return {mapped(place), weight.bytes.size};
    auto [data, size] = parts_.reader.getRecord(weight.name);
    return {std::move(data), size};
  }

  c10::IValue unpickle(const std::string& name) {
    const auto record = parts_.reader.getRecord(name + ".pkl");
    std::string_view rest(static_cast<const char*>(std::get<0>(record).get()), std::get<1>(record));
    const auto read = [&rest](char* into, std::size_t wanted) {
      const std::size_t count = std::min(wanted, rest.size());
      std::memcpy(into, rest.data(), count);
      rest.remove_prefix(count);
      return count;
    };
    const auto find_type = [this](const c10::QualifiedName& type) { return c10::StrongTypePtr(unit_, type_of(type)); };
    const auto no_such_record = [](const std::string&) -> at::DataPtr {
      throw std::runtime_error("a tensor's data is missing");
    };
    jit::Unpickler unpickler(read, find_type, &make_object, no_such_record, at::Device(at::kCPU), false,
                             jit::Unpickler::defaultTypeParser, storages(name + "/"));
    unpickler.set_version(parts_.reader.version());
    return unpickler.parse_ivalue();
  }

  const ArchiveParts& parts_;
  std::shared_ptr<jit::CompilationUnit> unit_;
  std::vector<c10::IValue> constants_;
  std::vector<c10::Storage> storages_;
  jit::SourceImporter source_;
};

}  // namespace

void point_to(c10::Storage& storage, const WeightPlace& place) {
  storage.set_data_ptr(mapped(place));
}

void make_own(c10::Storage& storage) {
  c10::DataPtr copy = c10::GetAllocator(at::kCPU)->allocate(storage.nbytes());
  std::memcpy(copy.get(), storage.data(), storage.nbytes());
  storage.set_data_ptr(std::move(copy));
}

ReadModule read_module(const ArchiveParts& parts) {
  return ModelReader(parts).read();
}

}  // namespace mme::loader
