// Files that look like models from outside and are none, made from bytes or by rewriting a good model's archive.
// Nothing here is loaded.
#include "scripts/demo/module_builder.hpp"
#include "tests/models/test_models.hpp"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

namespace mme::models {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string noise(std::size_t size) {
  std::mt19937 engine(7);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(engine());
  return bytes;
}

/// A dictionary of tensors as torch.save writes it: weights without code.
std::string state_dict() {
  c10::Dict<std::string, torch::Tensor> weights;
  weights.insert("a", torch::ones({3}));
  const std::vector<char> bytes = torch::jit::pickle_save(c10::IValue(weights));
  return {bytes.begin(), bytes.end()};
}

bool ends_with(const std::string& text, const std::string& tail) {
  return text.size() >= tail.size() && text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// Copies an archive record by record; the code in it gets an expression nested `depth` times.
void write_deep_copy(const fs::path& source, const fs::path& target, std::size_t depth) {
  const std::string deep = "return " + std::string(depth, '(') + "x" + std::string(depth, ')');
  caffe2::serialize::PyTorchStreamReader reader(source.string());
  caffe2::serialize::PyTorchStreamWriter writer(target.string());
  bool found = false;
  for (const std::string& name : reader.getAllRecords()) {
    if (name == "version" || name.rfind(".data/", 0) == 0 || name == "byteorder") continue;  // the writer adds its own
    const auto [data, size] = reader.getRecord(name);
    std::string record(static_cast<const char*>(data.get()), size);
    if (ends_with(name, ".py")) {
      const std::size_t before = record.size();
      replace_all(record, "return x", deep);
      found = found || record.size() != before;
    }
    writer.writeRecord(name, record.data(), record.size());
  }
  writer.writeEndOfFile();
  if (!found) throw std::logic_error("the code of echo does not read as expected");
}

}  // namespace

void make_broken_files(const fs::path& folder) {
  const torch::NoGradGuard no_grad;
  write_file(folder / "zero.pt", "");
  write_file(folder / "rand.pt", noise(5000));
  const std::string mlp = read_file(folder / "mlp.pt");
  if (mlp.empty()) throw std::logic_error("mlp must be made first");
  write_file(folder / "trunc.pt", mlp.substr(0, mlp.size() / 2));
  write_file(folder / "statedict.pt", state_dict());
  write_deep_copy(folder / "echo.pt", folder / "segv.pt", 20000);
}

}  // namespace mme::models
