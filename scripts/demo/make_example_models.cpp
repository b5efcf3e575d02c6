// make_example_models OUTDIR MANIFEST: writes the twenty example models and a file of requests with their answers.
#include <exception>
#include <iostream>

#include "scripts/demo/example_folder.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: make_example_models OUTDIR MANIFEST\n";
    return 2;
  }
  try {
    const auto [models, bytes] = mme::models::write_examples(argv[1], argv[2]);
    std::cout << models << " models, " << bytes << " bytes\n";
  } catch (const std::exception& error) {
    std::cerr << "make_example_models: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
