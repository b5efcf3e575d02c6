// How many bytes of weights a set of archives holds when equal ones count once; told by the archives themselves.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace mme::bench {

/// Equal means of equal size and equal CRC-32, which archives keep for each record. Throws when one is no archive.
[[nodiscard]] std::size_t unique_weight_bytes(const std::vector<std::filesystem::path>& files);

}  // namespace mme::bench
