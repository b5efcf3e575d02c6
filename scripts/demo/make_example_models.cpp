// make_example_models OUTDIR MANIFEST: writes the twenty example models and a file of requests with their answers.
// Equal calls write equal files; nothing is trained.
#include <torch/script.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>

#include "scripts/demo/example_manifest.hpp"
#include "scripts/demo/example_models.hpp"
#include "scripts/demo/module_builder.hpp"

namespace {

namespace fs = std::filesystem;

void make(const fs::path& folder, const fs::path& manifest) {
  torch::NoGradGuard no_grad;
  fs::create_directories(folder);
  std::string entries;
  std::uintmax_t total = 0;
  const std::vector<mme::models::Example> examples = mme::models::make_examples();
  for (const mme::models::Example& example : examples) {
    const fs::path file = folder / (example.name + ".pt");
    mme::models::save(example.module, file);
    const std::uintmax_t bytes = fs::file_size(file);
    total += bytes;
    entries += (entries.empty() ? "" : ",\n") + mme::models::manifest_entry(example, bytes);
  }
  std::ofstream out(manifest);
  out << "[" << entries << "]\n";
  if (!out.flush()) throw std::runtime_error("the manifest cannot be written");
  std::cout << examples.size() << " models, " << total << " bytes\n";
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  std::string manifest;
  CLI::App app{"Writes the example models of the demo, from 1 KB to 100 MB."};
  app.add_option("outdir", folder, "folder for the models; made when absent")->required();
  app.add_option("manifest", manifest, "file for the requests and the answers they must get")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    make(folder, manifest);
  } catch (const std::exception& error) {
    std::cerr << "make_example_models: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
