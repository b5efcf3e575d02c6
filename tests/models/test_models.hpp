// The makers of the small models that tests serve: one function per kind, each writes NAME.pt files into a folder.
// Nothing is loaded or run here, hostile files above all: many of them harm the process that does.
#pragma once

#include <filesystem>
#include <string>

namespace mme::models {

/// What each model does stands beside its source in plain_models.cpp: values of every kind in and out.
void make_plain_models(const std::filesystem::path& folder);

/// The numbers with which the layer and the head of `tuned` begin.
inline constexpr float kLayerMark = 22222.25F;
inline constexpr float kHeadMark = 11111.75F;

/// Models with weights: big1, big32, big64 (that many MiB; `x` becomes x + 1), with `with_big256` also big256; mlp;
/// tuned; counting.
void make_weighted_models(const std::filesystem::path& folder, bool with_big256);

/// Models that load or run slowly, endlessly, hugely, or that touch files.
void make_hostile_models(const std::filesystem::path& folder);

/// Files that are no models: zero, rand, trunc, statedict, and segv, whose code overflows an 8 MiB stack when loaded.
/// Needs mlp and echo in the folder.
void make_broken_files(const std::filesystem::path& folder);

/// STEM_0.pt .. STEM_(count-1).pt from STEM.pt: equal but for one element in each 64 KiB of every parameter, so that no
/// large tensor of one equals a tensor of another. Answers of the bigN models stay the same. Throws when STEM.pt has no
/// parameter.
void make_twins(const std::filesystem::path& folder, const std::string& stem, int count);

}  // namespace mme::models
