// The exception that is being handled, as one line for a client.
// Only reads libtorch's exception types; error_text does the rest.
#pragma once

#include <string>

namespace mme::loader {

/// Only inside a catch block.
[[nodiscard]] std::string current_exception_text();

}  // namespace mme::loader
