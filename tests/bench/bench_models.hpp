// The models that are measured, made where they are needed.
#pragma once

#include <cstddef>
#include <filesystem>

namespace mme::bench {

/// Layers of a stack of 400 MiB.
inline constexpr std::size_t kStackLayers = 25;
inline constexpr std::size_t kStackBytes = kStackLayers << 24;

/// All weights of a layer are equal, those of layer i are (i + 1) thousandths times these.
struct StackFactors {
  double factor = 1;
  double last_factor = 1;  ///< of the last layer, instead
};

/// Linear layers of 2048 x 2048 (16 MiB each) in a row; input [n, 2048].
void save_stack(const std::filesystem::path& file, std::size_t layers, StackFactors factors = {});
/// 20 linear layers of 256 x 256 (5 MiB together) with activations between; input [n, 256].
void save_layers(const std::filesystem::path& file);
/// Three convolutions and a mean; input [n, 3, height, width] of any size.
void save_convolutions(const std::filesystem::path& file);

}  // namespace mme::bench
