// Writes the example models into a folder. Free of libtorch's headers.
#pragma once

#include <cstdint>
#include <filesystem>

namespace mme::models {

struct WrittenExamples {
  std::size_t models = 0;
  std::uintmax_t bytes = 0;  ///< of all model files together
};

/// Writes NAME.pt for each example, and to `manifest` the requests with the answers they must get. Makes the folder
/// when absent. Equal calls write equal files; nothing is trained. Throws std::exception.
WrittenExamples write_examples(const std::filesystem::path& folder, const std::filesystem::path& manifest);

}  // namespace mme::models
