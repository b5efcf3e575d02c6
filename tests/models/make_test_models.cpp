// make_test_models OUTDIR [--big] [--twins STEM COUNT]...: writes the models that tests serve.
// It loads none of them, but for the stem of twins.
#include "tests/models/test_models.hpp"

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Options {
  std::string folder;
  bool big = false;
  bool twins_only = false;
  std::vector<std::pair<std::string, int>> twins;
};

void make(const Options& options) {
  const std::filesystem::path folder = options.folder;
  std::filesystem::create_directories(folder);
  if (!options.twins_only) {
    mme::models::make_plain_models(folder);
    mme::models::make_weighted_models(folder, options.big);
    mme::models::make_hostile_models(folder);
    mme::models::make_broken_files(folder);
  }
  for (const auto& [stem, count] : options.twins) mme::models::make_twins(folder, stem, count);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Writes the small good and hostile TorchScript models that tests serve."};
  app.add_option("outdir", options.folder, "folder to write into; made when absent")->required();
  app.add_flag("--big", options.big, "also big256 (256 MiB)");
  app.add_flag("--twins-only", options.twins_only, "only the twins; their stem is in the folder already");
  app.add_option("--twins", options.twins, "STEM COUNT: also STEM_0 .. STEM_(COUNT-1)");
  CLI11_PARSE(app, argc, argv);
  try {
    make(options);
  } catch (const std::exception& error) {
    std::cerr << "make_test_models: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
