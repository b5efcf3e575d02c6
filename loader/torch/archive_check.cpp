#include "loader/torch/archive_check.hpp"

#include <algorithm>
#include <string_view>

namespace mme::loader {
namespace {

// Measured on models of 1 to 400 layers: code text, its debug records and pickles grow so much as graphs and objects.
constexpr std::size_t code_growth = 16;
constexpr std::size_t code_base = std::size_t{64} << 10;
constexpr std::size_t block_overhead = 64;  // the allocator's header
constexpr std::uint64_t alignment = 64;     // of tensors, as libtorch's own allocator has it

std::size_t plus(std::size_t a, std::size_t b) {
  std::size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

bool is_weight(std::string_view record) {
  return record.starts_with("data/") || record.starts_with("constants/") || record.starts_with("tensors/");
}

/// What the weights take when all are copied, and when those are mapped that can be.
std::size_t bytes_of(const std::vector<WeightRecord>& weights) {
  std::size_t all_copied = 0, copied = 0;
  std::vector<ByteRange> mapped;
  for (const WeightRecord& weight : weights) {
    const std::size_t block = plus(weight.bytes.size, block_overhead);
    all_copied = plus(all_copied, block);
    if (weight.mappable) {
      mapped.push_back(weight.bytes);
    } else {
      copied = plus(copied, block);
    }
  }
  return std::max(all_copied, plus(copied, total_size(pages_of(std::move(mapped)))));
}

}  // namespace

Result<ArchivePlan> plan_archive(const ZipDirectory& directory) {
  if (directory.entries.empty()) return fail(ErrorCode::model_broken, "the archive is empty");
  const std::string& first = directory.entries.front().name;
  const auto slash = first.find('/');
  if (slash == std::string::npos) return fail(ErrorCode::model_broken, "a zip archive, but not a TorchScript model");
  ArchivePlan plan;
  plan.root = first.substr(0, slash + 1);
  const auto has = [&](std::string_view record) { return directory.find(plan.root + std::string(record)) != nullptr; };
  if (has("data.pkl") && !has("constants.pkl")) {
    return fail(ErrorCode::model_broken, "this is a state dict, not a TorchScript model");
  }
  if (!has("data.pkl") && !has("model.json")) {
    return fail(ErrorCode::model_broken, "a zip archive, but not a TorchScript model");
  }
  std::size_t text = 0;
  for (const ZipEntry& entry : directory.entries) {
    if (!entry.name.starts_with(plan.root)) continue;
    const std::string record = entry.name.substr(plan.root.size());
    if (record == "data.pkl" || record == "constants.pkl") plan.pickles.push_back(record);
    if (record.starts_with("code/") && record.ends_with(".py")) plan.code.push_back(record);
    if (is_weight(record)) {
      const bool mappable = !entry.deflated && entry.data_offset % alignment == 0;
      plan.weights.push_back({record, {entry.data_offset, entry.size}, mappable});
    } else if (!record.starts_with("extra/")) {
      text = plus(text, entry.size);
    }
  }
  std::ranges::sort(plan.code);
  plan.has_json = has("model.json");
  plan.weight_bytes = bytes_of(plan.weights);
  std::size_t grown = 0;
  plan.code_bytes = __builtin_mul_overflow(text, code_growth, &grown) ? SIZE_MAX : plus(grown, code_base);
  return plan;
}

}  // namespace mme::loader
