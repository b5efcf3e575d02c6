#include "tests/bench/tiny_models.hpp"

#include <torch/script.h>

#include <boost/crc.hpp>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

#include "scripts/demo/module_builder.hpp"

namespace mme::bench {
namespace {

constexpr int kTinyLayers = 20;
constexpr float kTinyReach = 0.5F;

template <class Number>
Number number_at(const std::string& bytes, std::size_t at) {
  Number value;
  if (at + sizeof(value) > bytes.size()) throw std::runtime_error("the archive does not read as expected");
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

void put(std::string& bytes, std::size_t at, std::uint32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

constexpr std::uint32_t kDescriptorMark = 0x08074b50;
constexpr std::uint32_t kEntryMark = 0x02014b50;

}  // namespace

TinyModels::TinyModels() {
  for (int i = 0; i < kArchitectures; ++i) templates_.push_back(make(i));
}

TinyModels::Template TinyModels::make(int architecture) {
  const torch::NoGradGuard no_grad;
  torch::jit::Module model = mme::models::new_module("Tiny" + std::to_string(architecture));
  torch::jit::Module linear = mme::models::new_submodule(model, "Linear");
  mme::models::add_parameter(linear, "weight", torch::zeros({kWidth, kWidth}));
  mme::models::add_parameter(linear, "bias", torch::zeros({kWidth}));
  mme::models::define(linear, "def forward(self, x):\n    return torch.linear(x, self.weight, self.bias)\n");
  std::string source = "def forward(self, x):\n";
  for (int i = 0; i < kTinyLayers; ++i) {
    const std::string name = "l" + std::to_string(i);
    const torch::jit::Module layer = mme::models::new_instance(linear);
    model.register_module(name, layer);
    source += "    x = self." + name + ".forward(x)\n";
    if (i % kArchitectures == architecture) source += "    x = torch.tanh(x)\n";
  }
  mme::models::define(model, source + "    return x\n");
  std::ostringstream stream;
  model.save(stream);
  Template made{stream.str(), {}};
  made.weights = weights_in(made.archive);
  return made;
}

/// libtorch writes each record's checksum twice: behind its bytes, and into the directory.
std::vector<TinyModels::Record> TinyModels::weights_in(const std::string& archive) {
  constexpr std::size_t end_size = 22;
  const std::size_t end = archive.size() - end_size;
  std::size_t entry = number_at<std::uint32_t>(archive, end + 16);
  std::vector<Record> found;
  while (number_at<std::uint32_t>(archive, entry) == kEntryMark) {
    const std::size_t size = number_at<std::uint32_t>(archive, entry + 24);
    const std::size_t name_size = number_at<std::uint16_t>(archive, entry + 28);
    const std::size_t local = number_at<std::uint32_t>(archive, entry + 42);
    const std::string name = archive.substr(entry + 46, name_size);
    const std::size_t data =
        local + 30 + number_at<std::uint16_t>(archive, local + 26) + number_at<std::uint16_t>(archive, local + 28);
    if (name.find("/data/") != std::string::npos) {
      if (number_at<std::uint32_t>(archive, data + size) != kDescriptorMark) throw std::runtime_error("no checksum");
      found.push_back({data, size, entry});
    }
    entry +=
        46 + name_size + number_at<std::uint16_t>(archive, entry + 30) + number_at<std::uint16_t>(archive, entry + 32);
  }
  if (found.size() != 2 * kTinyLayers) throw std::runtime_error("the archive has other weights than expected");
  return found;
}

void TinyModels::write(const std::filesystem::path& file, int number) const {
  const Template& base = templates_.at(static_cast<std::size_t>(number % kArchitectures));
  std::string archive = base.archive;
  std::minstd_rand random(static_cast<unsigned>(number + 1));
  std::uniform_real_distribution<float> weight(-kTinyReach, kTinyReach);
  for (const Record& record : base.weights) {
    for (std::size_t at = 0; at < record.size; at += sizeof(float)) {
      const float value = weight(random);
      std::memcpy(archive.data() + record.data + at, &value, sizeof(value));
    }
    boost::crc_32_type sum;
    sum.process_bytes(archive.data() + record.data, record.size);
    put(archive, record.data + record.size + 4, sum.checksum());
    put(archive, record.entry + 16, sum.checksum());
  }
  std::ofstream(file, std::ios::binary) << archive;
}

std::size_t TinyModels::weight_bytes() const {
  std::size_t bytes = 0;
  for (const Record& record : templates_.front().weights) bytes += record.size;
  return bytes;
}

}  // namespace mme::bench
