// One line of the demo's manifest: a model, a request for it and the answer it must give, as JSON.
// It is only written here; demo_client reads it.
#pragma once

#include <cstdint>
#include <string>

#include "scripts/demo/example_models.hpp"

namespace mme::models {

/// Runs the example on its inputs and gives
/// `{"model","about","bytes","request":{Open Inference Protocol},"answers":[{"name","data":[..]}]}`.
/// `name` is "" where the model gives its outputs no names. `answers` is null for a model that keeps state.
/// Throws when an answer is not finite.
[[nodiscard]] std::string manifest_entry(const Example& example, std::uintmax_t file_bytes);

}  // namespace mme::models
