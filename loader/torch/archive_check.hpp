// What a zip directory says of a TorchScript archive: whether it is one, and what loading it will take.
// Reads no record; knows no libtorch.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "loader/error.hpp"
#include "loader/zip_directory.hpp"

namespace mme::loader {

struct ArchivePlan {
  std::string root;                  ///< the folder that holds everything, with its slash
  std::vector<std::string> pickles;  ///< record names below the root that libtorch unpickles
  std::vector<std::string> code;     ///< record names below the root that libtorch compiles
  std::size_t weight_bytes = 0;      ///< tensors of data/ and constants/
  std::size_t code_bytes = 0;        ///< a guess from above of what code and objects take once loaded
};

/// Fails with model_broken when the archive cannot be a TorchScript model; a state dict is named as such.
[[nodiscard]] Result<ArchivePlan> plan_archive(const ZipDirectory& directory);

}  // namespace mme::loader
