#include "scripts/demo/example_folder.hpp"

#include <torch/script.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "scripts/demo/example_manifest.hpp"
#include "scripts/demo/example_models.hpp"
#include "scripts/demo/module_builder.hpp"

namespace mme::models {

WrittenExamples write_examples(const std::filesystem::path& folder, const std::filesystem::path& manifest) {
  torch::NoGradGuard no_grad;
  std::filesystem::create_directories(folder);
  std::string entries;
  WrittenExamples written;
  for (const Example& example : make_examples()) {
    const std::filesystem::path file = folder / (example.name + ".pt");
    save(example.module, file);
    const std::uintmax_t bytes = std::filesystem::file_size(file);
    written.bytes += bytes;
    ++written.models;
    entries += (entries.empty() ? "" : ",\n") + manifest_entry(example, bytes);
  }
  std::ofstream out(manifest);
  out << "[" << entries << "]\n";
  if (!out.flush()) throw std::runtime_error("the manifest cannot be written");
  return written;
}

}  // namespace mme::models
