// What make_example_models wrote about its models, read back: requests, and the answers they must get.
// Reading only; example_manifest writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mme::demo {

struct ExpectedOutput {
  std::string name;  ///< empty: any name
  std::vector<double> values;
};

struct DemoModel {
  std::string name;
  std::string about;
  std::uint64_t file_bytes = 0;
  std::string request;                                 ///< the body of an Open Inference Protocol request
  std::optional<std::vector<ExpectedOutput>> answers;  ///< nullopt: the model keeps state, any finite answer is right
};

/// Throws std::runtime_error when the text is not a manifest.
[[nodiscard]] std::vector<DemoModel> read_manifest(std::string_view json);
[[nodiscard]] std::vector<DemoModel> read_manifest_file(const std::filesystem::path& file);

/// Whether the reply is an inference answer with these outputs, in this order. Values may differ by 0.1 % (and 1e-5
/// near zero): another machine's kernels add in another order.
[[nodiscard]] bool is_right(std::string_view reply, const std::optional<std::vector<ExpectedOutput>>& answers);

}  // namespace mme::demo
