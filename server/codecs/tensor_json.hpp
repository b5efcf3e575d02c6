// Tensors to and from JSON values: exact for integers, range-checked for every width.
// Knows no protocol; names, shapes and datatypes come from the dialects' wire files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "loader/error.hpp"
#include "loader/tensor.hpp"
#include "server/codecs/json_reader.hpp"

namespace mme::server {

/// Most dimensions of a tensor that a request may name.
inline constexpr std::size_t kMostDimensions = 64;

/// Reads `data`, flat or nested exactly as `shape` says, row-major. `what` names the tensor in messages
/// ("input 'x'"). All refusals are invalid_tensor; nothing is allocated for a shape before the data was counted.
/// - Integers: JSON integers within the width; 1.0 and 1e3 are reals and refused.
/// - FP64, FP32, FP16, BF16: any JSON number, rounded to nearest; refused when it would become infinite; also the
///   strings "NaN", "Infinity" and "-Infinity".
/// - BOOL: true and false only. BYTES: strings only, kept as UTF-8.
[[nodiscard]] loader::Result<loader::Tensor> read_tensor(JsonValue data, loader::DataType type, loader::Shape shape,
                                                         std::string_view what);

/// Reads a value whose nesting is its shape: numbers and booleans (as 1 and 0) become FP32, strings BYTES; a bare
/// scalar has the shape []. Ragged or mixed arrays are invalid_tensor. Depth is bounded by the document. With a `type`
/// its elements are read as that one, by the rules of read_tensor().
[[nodiscard]] loader::Result<loader::Tensor> read_shaped(JsonValue data, std::string_view what,
                                                         std::optional<loader::DataType> type = std::nullopt);

enum class JsonStyle {
  /// As the Open Inference Protocol is spoken: `,` between elements, a float in the shortest digits that give
  /// the same value as FP32 (FP64 for FP64), and "NaN", "Infinity", "-Infinity" as strings.
  protocol,
  /// As Python's json.dumps(tensor.tolist()): `, ` between elements, every float widened to double first, and the bare
  /// tokens NaN, Infinity and -Infinity (which are no JSON, but what such clients read).
  python,
};

/// Makes `out` able to take `more` bytes, or says why not. Asked before a long text grows, with a guess of what is
/// still to come, so that a text is moved once or twice and not at each doubling. Empty: it grows as strings do.
using Reserve = std::function<loader::Result<void>(std::string& out, std::size_t more)>;

/// Appends the elements as one flat array. Errors: what `reserve` says;
/// not_acceptable: a BYTES element that is not UTF-8, which JSON cannot carry.
[[nodiscard]] loader::Result<void> write_flat(std::string& out, const loader::Tensor& tensor, JsonStyle style,
                                              const Reserve& reserve = {});

/// Appends the elements as nested arrays, or one bare value for the shape [].
/// not_acceptable: as above, and more than a million empty rows.
[[nodiscard]] loader::Result<void> write_nested(std::string& out, const loader::Tensor& tensor, JsonStyle style,
                                                const Reserve& reserve = {});

}  // namespace mme::server
