// What the suites of loader/torch share: models written in TorchScript, and a directory for them.
// Tests nothing itself, and keeps libtorch's headers (and their macros) out of the suites.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "loader/model.hpp"
#include "loader/torch/torch_loader.hpp"
#include "tests/torch/counting_grant.hpp"

namespace mme::test {

/// A TorchScript module in the making.
class ModuleBuilder {
 public:
  ModuleBuilder();
  ~ModuleBuilder();
  ModuleBuilder(const ModuleBuilder&) = delete;
  ModuleBuilder& operator=(const ModuleBuilder&) = delete;

  ModuleBuilder& parameter(const std::string& name, loader::Shape shape, float value = 1);
  ModuleBuilder& buffer(const std::string& name, loader::Shape shape, float value = 0);
  /// A buffer that is the first row of another: both lie in one storage.
  ModuleBuilder& row_of(const std::string& buffer, const std::string& name);
  ModuleBuilder& identity(const std::string& name, std::int64_t size);
  ModuleBuilder& flag(const std::string& name, bool value);
  ModuleBuilder& integer(const std::string& name, std::int64_t value);
  ModuleBuilder& integers(const std::string& name, std::vector<std::int64_t> values);
  ModuleBuilder& tensor_list(const std::string& name, std::size_t count);
  ModuleBuilder& tensor_dict(const std::string& name, const std::string& key);
  ModuleBuilder& child(const std::string& name, const ModuleBuilder& module);
  /// May call `silent_add(x)`, an operator that adds 1 in place and does not say so.
  ModuleBuilder& define(const std::string& source);
  /// Puts its weights into its code, as torch.jit.freeze does.
  ModuleBuilder& freeze();
  void save(const std::string& file) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A directory that goes away with the test.
class ModelDirectory {
 public:
  ModelDirectory();
  ~ModelDirectory();
  ModelDirectory(const ModelDirectory&) = delete;
  ModelDirectory& operator=(const ModelDirectory&) = delete;

  /// Saves a model that has these methods and nothing else.
  loader::ModelSpec script(const std::string& source);
  loader::ModelSpec save(const ModuleBuilder& module);
  loader::ModelSpec bytes(const std::string& content);
  /// The archive of `spec` written anew with each record changed as `edit(name, content)` says; nothing is compressed.
  loader::ModelSpec rewritten(const loader::ModelSpec& spec,
                              const std::function<std::string(const std::string&, std::string)>& edit);
  [[nodiscard]] std::string path(const loader::ModelSpec& spec) const { return spec.artifact.path; }
  [[nodiscard]] const std::filesystem::path& folder() const { return directory_; }
  [[nodiscard]] static std::string content(const loader::ModelSpec& spec);

 private:
  std::filesystem::path next_file();

  std::filesystem::path directory_;
  int files_ = 0;
};

[[nodiscard]] loader::ArtifactId identify(const std::filesystem::path& file);

/// Starts libtorch once in the process.
void start_torch();

/// What a model takes alone, or an estimate says that it will: its own bytes and those of segments.
struct Bytes {
  std::size_t weights = 0;
  std::size_t code = 0;
};
[[nodiscard]] Bytes bytes_of(const loader::Footprint& footprint);
[[nodiscard]] std::size_t bytes_of(const loader::Estimate& estimate);

/// Loads with a grant that gives everything; fails the test when it does not load.
[[nodiscard]] std::unique_ptr<loader::Model> load(const loader::ModelSpec& spec,
                                                  const loader::LoaderOptions& options = {});
/// The same with a loader whose other models it may share with.
[[nodiscard]] std::unique_ptr<loader::Model> load_with(const loader::TorchLoader& torch, const loader::ModelSpec& spec);
[[nodiscard]] loader::Error load_error(const loader::ModelSpec& spec);

[[nodiscard]] loader::Tensor floats(loader::Shape shape, std::vector<float> values);
[[nodiscard]] loader::Tensor integers(loader::Shape shape, std::vector<std::int64_t> values);
[[nodiscard]] loader::Tensor texts(std::vector<std::string> values);
[[nodiscard]] std::vector<float> values_of(const loader::Tensor& tensor);
template <class T>
[[nodiscard]] std::vector<T> elements(const loader::Tensor& tensor) {
  const auto* begin = reinterpret_cast<const T*>(tensor.data().data());
  return {begin, begin + tensor.data().size() / sizeof(T)};
}

/// Calls with a grant that gives everything.
[[nodiscard]] loader::Result<loader::TensorMap> call(loader::Model& model, const loader::TensorMap& inputs);
[[nodiscard]] std::vector<std::string> names_of(const loader::TensorMap& tensors);

}  // namespace mme::test
