#include "loader/torch/archive_check.hpp"

#include <algorithm>
#include <string_view>

#include "loader/archive_digest.hpp"
#include "loader/torch/fingerprint.hpp"

namespace mme::loader {
namespace {

// Measured on models of 1 to 400 layers: code text, its debug records and pickles grow so much as graphs and objects.
constexpr std::size_t code_growth = 16;
constexpr std::size_t object_base = std::size_t{16} << 10;
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

/// Debug records are not read, and hold the author's paths: they say nothing.
bool is_of_code(std::string_view record) {
  return record == "constants.pkl" || record == "version" || record.starts_with("constants/") ||
         (record.starts_with("code/") && record.ends_with(".py"));
}

std::size_t grown(std::size_t text, std::size_t base) {
  std::size_t product = 0;
  return __builtin_mul_overflow(text, code_growth, &product) ? SIZE_MAX : plus(product, base);
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
  Fingerprint code;
  for (const ZipEntry& entry : directory.entries) {
    if (!entry.name.starts_with(plan.root)) continue;
    const std::string record = entry.name.substr(plan.root.size());
    if (record == "data.pkl" || record == "constants.pkl") plan.pickles.push_back(record);
    if (record.starts_with("code/") && record.ends_with(".py")) plan.code.push_back(record);
    if (is_of_code(record)) {
      code.add(record);
      code.add(entry.size);
      code.add(entry.crc32);
    }
    if (record.starts_with("constants/")) plan.constant_bytes += entry.size;
    if (record == "data.pkl") plan.object_bytes = grown(entry.size, object_base);
    if (is_weight(record)) {
      const bool mappable = !entry.deflated && entry.data_offset % alignment == 0;
      plan.weights.push_back({record, {entry.data_offset, entry.size}, mappable, entry.crc32});
    } else if (!record.starts_with("extra/")) {
      text = plus(text, entry.size);
    }
  }
  std::ranges::sort(plan.code);
  std::ranges::sort(plan.weights, {}, [](const WeightRecord& weight) { return weight.bytes.offset; });
  plan.has_json = has("model.json");
  plan.digest = archive_digest(directory, plan.root);
  plan.weight_bytes = bytes_of(plan.weights);
  plan.code_bytes = grown(text, code_base);
  plan.code_fingerprint = code.value();
  return plan;
}

}  // namespace mme::loader
