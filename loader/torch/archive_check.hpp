// What a zip directory says of a TorchScript archive: whether it is one, and what loading it will take.
// Reads no record; knows no libtorch.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "loader/error.hpp"
#include "loader/torch/page_ranges.hpp"
#include "loader/zip_directory.hpp"

namespace mme::loader {

/// A record that holds the bytes of one tensor storage.
struct WeightRecord {
  std::string name;  ///< below the root
  ByteRange bytes;   ///< in the file when `mappable`; the size is that of the content, inflated
  bool mappable = false;
  std::uint32_t crc32 = 0;  ///< of the content, as the directory has it
};

/// Tensors inside graphs are part of what makes code equal, and stay on the heap as long as it is used: code with more
/// of them (a frozen model has all its weights there) is not shared.
inline constexpr std::uint64_t most_shared_constants = std::uint64_t{256} << 10;

struct ArchivePlan {
  std::string root;                    ///< the folder that holds everything, with its slash
  std::string digest;                  ///< see archive_digest()
  std::vector<std::string> pickles;    ///< record names below the root that libtorch unpickles
  std::vector<std::string> code;       ///< record names below the root that libtorch compiles, sorted
  std::vector<WeightRecord> weights;   ///< of data/ and constants/, in the order of the file
  bool has_json = false;               ///< a format older than pickles
  std::size_t weight_bytes = 0;        ///< what the weights take, mapped or copied, whichever is more
  std::size_t code_bytes = 0;          ///< a guess from above of what code and objects take once loaded
  std::size_t object_bytes = 0;        ///< the part of it that is objects: all that is made when the code is there
  std::uint64_t constant_bytes = 0;    ///< of tensors in the code
  std::uint64_t code_fingerprint = 0;  ///< equal for archives that hold the same code records, as far as it is known
};

/// Fails with model_broken when the archive cannot be a TorchScript model; a state dict is named as such.
[[nodiscard]] Result<ArchivePlan> plan_archive(const ZipDirectory& directory);

}  // namespace mme::loader
