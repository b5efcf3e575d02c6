// Looks over the records that libtorch's parsers would follow blindly, before they do: pickles and code text.
// Builds nothing from them and accepts much that libtorch then refuses.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mme::loader {

/// What is wrong with a pickle, in words; nullopt when nothing is. Refuses instructions that TorchScript never writes,
/// and lengths and memo numbers that the record cannot have (libtorch allocates what they say, gigabytes, unasked).
[[nodiscard]] std::optional<std::string> problem_in_pickle(std::string_view pickle);

/// The same for a code file: brackets nested so deeply that the compiler's recursion would end the stack.
[[nodiscard]] std::optional<std::string> problem_in_code(std::string_view code);

/// Whether code calls a quantized convolution as writers before 2020 did, with stride and padding as arguments of their
/// own: such a call is rewritten by torch::jit::load, and by nobody else.
[[nodiscard]] bool calls_old_quantized_conv(std::string_view code);

}  // namespace mme::loader
