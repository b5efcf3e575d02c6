#include "loader/torch/output_bridge.hpp"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "loader/torch/c10_allocator.hpp"
#include "loader/torch/tensor_bridge.hpp"

namespace mme::loader {
namespace {

constexpr int deepest = 32;
constexpr std::size_t small_text = std::size_t{64} << 10;  // not worth charging, as for small bodies
constexpr std::size_t small_waste = std::size_t{64} << 10;

Error cannot_carry(const std::string& name, const std::string& what) {
  return fail(ErrorCode::inference_failed,
              "the model returned " + what + " as '" + name + "', which a reply cannot carry");
}

/// Why a tensor cannot be sent; nullopt when it can.
std::optional<std::string> unsendable(const at::Tensor& tensor) {
  if (!tensor.defined()) return "None";
  if (tensor.is_quantized()) return "a quantized tensor";
  if (tensor.is_nested()) return "a nested tensor";
  if (tensor.layout() != at::kStrided) return "a " + c10::str(tensor.layout()) + " tensor";
  if (!tensor.device().is_cpu()) return "a tensor on " + tensor.device().str();
  if (!data_type_of(tensor.scalar_type())) return std::string("a ") + c10::toString(tensor.scalar_type()) + " tensor";
  return std::nullopt;
}

class Collector {
 public:
  explicit Collector(const OutputSources& sources) : sources_(sources) {}

  Result<TensorMap> collect(const c10::IValue& returned) {
    top(returned);
    if (error_) return *error_;
    std::unordered_set<std::string_view> names;
    for (const NamedTensor& output : outputs_) {
      if (!names.insert(output.name).second) {
        const AccountScope nobody(nullptr);
        return fail(ErrorCode::inference_failed, "the model returned two outputs named '" + output.name + "'");
      }
    }
    return std::move(outputs_);
  }

 private:
  void top(const c10::IValue& value) {
    if (value.isGenericDict()) {
      dictionary("", value, 0);
    } else if (value.isTuple() || (value.isList() && !is_flat_list(value))) {
      members("OUTPUT__", value, 0);
    } else {
      add("OUTPUT__0", value, 0);
    }
  }

  /// Lists of numbers or text are one tensor, not one tensor each.
  static bool is_flat_list(const c10::IValue& value) {
    if (value.isIntList() || value.isDoubleList() || value.isBoolList()) return true;
    return value.toList().elementType()->kind() == c10::TypeKind::StringType;
  }

  void add(const std::string& name, const c10::IValue& value, int depth) {
    if (error_) return;
    if (depth > deepest) return refuse(cannot_carry(name, "values nested too deeply"));
    if (value.isTensor()) return tensor(name, value.toTensor());
    if (value.isString()) return text(name, {1}, {value.toStringRef()});
    if (value.isBool()) return numbers<std::uint8_t>(name, DataType::boolean, {1}, {value.toBool()});
    if (value.isInt()) return numbers<std::int64_t>(name, DataType::int64, {1}, {value.toInt()});
    if (value.isDouble()) return numbers<double>(name, DataType::fp64, {1}, {value.toDouble()});
    if (value.isGenericDict()) return dictionary(name + ".", value, depth + 1);
    if (value.isTuple()) return members(name + ".", value, depth + 1);
    if (value.isList()) return is_flat_list(value) ? flat_list(name, value) : members(name + ".", value, depth + 1);
    refuse(cannot_carry(name, value.isNone() ? "None" : "a value of type " + value.tagKind()));
  }

  void dictionary(const std::string& prefix, const c10::IValue& value, int depth) {
    for (const auto& entry : value.toGenericDict()) {
      if (entry.key().isString()) {
        add(prefix + entry.key().toStringRef(), entry.value(), depth);
      } else if (entry.key().isInt()) {
        add(prefix + std::to_string(entry.key().toInt()), entry.value(), depth);
      } else {
        refuse(cannot_carry(prefix + "*", "a dict with keys of type " + entry.key().tagKind()));
      }
    }
  }

  void members(const std::string& prefix, const c10::IValue& value, int depth) {
    std::size_t index = 0;
    if (value.isTuple()) {
      for (const c10::IValue& member : value.toTupleRef().elements())
        add(prefix + std::to_string(index++), member, depth);
    } else {
      const c10::List<c10::IValue> list = value.toList();
      for (; index < list.size(); ++index) add(prefix + std::to_string(index), list.get(index), depth);
    }
  }

  void flat_list(const std::string& name, const c10::IValue& value) {
    const auto count = static_cast<std::int64_t>(value.toListRef().size());
    if (value.isIntList()) return numbers<std::int64_t>(name, DataType::int64, {count}, value.toIntVector());
    if (value.isDoubleList()) return numbers<double>(name, DataType::fp64, {count}, value.toDoubleVector());
    if (value.isBoolList()) {
      const auto flags = value.toBoolList();
      return numbers<std::uint8_t>(name, DataType::boolean, {count}, {flags.begin(), flags.end()});
    }
    std::vector<std::string> texts;
    for (const c10::IValue& element : value.toListRef()) texts.push_back(element.toStringRef());
    text(name, {count}, texts);
  }

  template <class T>
  void numbers(const std::string& name, DataType type, const Shape& shape, const std::vector<T>& values) {
    const AccountScope payer(values.size() * sizeof(T) > small_text ? &sources_.outputs : nullptr);
    keep(name, Tensor::take<T>(type, shape, values));
  }

  /// Copies made here outlive the call, so the call must not be counted as keeping them.
  void text(const std::string& name, const Shape& shape, const std::vector<std::string>& texts) {
    std::size_t size = 0;
    for (const std::string& one : texts) size += one.size() + sizeof(std::string);
    const AccountScope payer(size > small_text ? &sources_.outputs : nullptr);
    keep(name, Tensor::strings(shape, texts));
  }

  void tensor(const std::string& name, const at::Tensor& returned) {
    if (const auto what = unsendable(returned)) return refuse(cannot_carry(name, *what));
    at::Tensor sent = own(returned.resolve_neg().contiguous());
    const AccountScope nobody(nullptr);
    const auto type = *data_type_of(sent.scalar_type());
    const auto* data = static_cast<const std::byte*>(sent.data_ptr());
    const std::size_t size = sent.nbytes();
    Shape shape(sent.sizes().begin(), sent.sizes().end());
    keep(name, Tensor::wrap(type, std::move(shape), std::make_shared<const at::Tensor>(std::move(sent)), data, size));
  }

  /// The same values in memory that the model and other calls cannot write to, paid for by the outputs' account.
  at::Tensor own(at::Tensor tensor) {
    const at::Storage& storage = tensor.storage();
    const bool wasteful = storage.nbytes() - std::min(storage.nbytes(), 2 * tensor.nbytes()) > small_waste;
    const MemoryAccount* payer = account_of(storage.data_ptr());
    const bool ours = payer == &sources_.call || payer == &sources_.outputs;
    if (sources_.may_take && !wasteful) {
      if (is_request_memory(storage) || tensor.nbytes() == 0) return tensor;
      if (ours && !tensor._is_zerotensor()) return charged_to_outputs(std::move(tensor));
    }
    return charged_to_outputs(tensor.clone(at::MemoryFormat::Contiguous));
  }

  at::Tensor charged_to_outputs(at::Tensor tensor) {
    const c10::DataPtr& data = tensor.storage().data_ptr();
    if (account_of(data) == &sources_.call) hand_over(data, sources_.outputs);
    return tensor;
  }

  bool is_request_memory(const at::Storage& storage) const {
    return std::ranges::any_of(sources_.wrapped, [&](const at::Tensor& input) {
      return input.storage().unsafeGetStorageImpl() == storage.unsafeGetStorageImpl();
    });
  }

  void keep(const std::string& name, Result<Tensor> made) {
    const AccountScope nobody(nullptr);
    if (!made) return refuse(made.error());
    outputs_.push_back({name, std::move(*made)});
  }

  void refuse(const Error& error) {
    const AccountScope nobody(nullptr);
    if (!error_) error_ = Error{error.code, std::string(error.message.data(), error.message.size())};
  }

  const OutputSources& sources_;
  TensorMap outputs_;
  std::optional<Error> error_;
};

}  // namespace

Result<TensorMap> take_outputs(const c10::IValue& returned, const OutputSources& sources) {
  return Collector(sources).collect(returned);
}

}  // namespace mme::loader
