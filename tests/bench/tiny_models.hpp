// Ten thousand tiny models in seconds: each architecture is saved once, its further models are that archive with
// other weights and the checksums that go with them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace mme::bench {

/// 20 linear layers of 16 x 16 with bias; where the activations stand tells architectures apart. Input [n, 16].
class TinyModels {
 public:
  static constexpr int kWidth = 16;
  static constexpr int kArchitectures = 10;

  TinyModels();
  /// The model of that number; its architecture is the number modulo ten, every weight is its own.
  void write(const std::filesystem::path& file, int number) const;
  /// Bytes of the weights of each model.
  [[nodiscard]] std::size_t weight_bytes() const;

 private:
  struct Record {
    std::size_t data;
    std::size_t size;
    std::size_t entry;  ///< of the central directory
  };
  struct Template {
    std::string archive;
    std::vector<Record> weights;
  };
  static Template make(int architecture);
  static std::vector<Record> weights_in(const std::string& archive);

  std::vector<Template> templates_;
};

}  // namespace mme::bench
