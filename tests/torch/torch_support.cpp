#include "tests/torch/torch_support.hpp"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/library.h>
#include <torch/torch.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "loader/torch/torch_loader.hpp"
#include "loader/torch/torch_runtime.hpp"
#include "tests/support/zip_writer.hpp"
#include "tests/torch/file_fixture.hpp"
// glog, which libtorch includes, has macros of the same names.
#undef CHECK
#undef CHECK_EQ
#include "tests/support/catch.hpp"

namespace mme::test {

using loader::Tensor;

/// Writes to its argument, and its schema says nothing of it.
TORCH_LIBRARY(mme_test, library) {
  library.def("silent_add(Tensor x) -> Tensor", [](const at::Tensor& x) {
    at::Tensor same = x.alias();
    same.add_(1);
    return same.clone();
  });
}

namespace {

/// What TorchScript knows, and `silent_add`.
class TestResolver final : public torch::jit::Resolver {
 public:
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name, torch::jit::GraphFunction& function,
                                                         const torch::jit::SourceRange& where) override {
    if (name != "silent_add") return torch::jit::nativeResolver()->resolveValue(name, function, where);
    return std::make_shared<torch::jit::BuiltinFunction>(c10::Symbol::fromQualString("mme_test::silent_add"),
                                                         c10::nullopt);
  }
};

}  // namespace

struct ModuleBuilder::Impl {
  torch::jit::Module module{"M", std::make_shared<torch::jit::CompilationUnit>(), true};
};

ModuleBuilder::ModuleBuilder() {
  start_torch();
  impl_ = std::make_unique<Impl>();
}
ModuleBuilder::~ModuleBuilder() = default;

ModuleBuilder& ModuleBuilder::parameter(const std::string& name, loader::Shape shape, float value) {
  impl_->module.register_parameter(name, at::full(shape, value), false);
  return *this;
}
ModuleBuilder& ModuleBuilder::buffer(const std::string& name, loader::Shape shape, float value) {
  impl_->module.register_buffer(name, at::full(shape, value));
  return *this;
}
ModuleBuilder& ModuleBuilder::row_of(const std::string& buffer, const std::string& name) {
  impl_->module.register_buffer(name, impl_->module.attr(buffer).toTensor()[0]);
  return *this;
}
ModuleBuilder& ModuleBuilder::identity(const std::string& name, std::int64_t size) {
  impl_->module.register_parameter(name, at::eye(size), false);
  return *this;
}
ModuleBuilder& ModuleBuilder::flag(const std::string& name, bool value) {
  impl_->module.register_attribute(name, c10::BoolType::get(), value);
  return *this;
}
ModuleBuilder& ModuleBuilder::integer(const std::string& name, std::int64_t value) {
  impl_->module.register_attribute(name, c10::IntType::get(), value);
  return *this;
}
ModuleBuilder& ModuleBuilder::integers(const std::string& name, std::vector<std::int64_t> values) {
  impl_->module.register_attribute(name, c10::ListType::ofInts(), std::move(values));
  return *this;
}
ModuleBuilder& ModuleBuilder::tensor_list(const std::string& name, std::size_t count) {
  c10::List<at::Tensor> list;
  for (std::size_t i = 0; i < count; ++i) list.push_back(at::ones({2}));
  impl_->module.register_attribute(name, c10::ListType::ofTensors(), list);
  return *this;
}
ModuleBuilder& ModuleBuilder::tensor_dict(const std::string& name, const std::string& key) {
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert(key, at::ones({2}));
  impl_->module.register_attribute(name, c10::DictType::create(c10::StringType::get(), c10::TensorType::get()), dict);
  return *this;
}
ModuleBuilder& ModuleBuilder::child(const std::string& name, const ModuleBuilder& module) {
  impl_->module.register_module(name, module.impl_->module);
  return *this;
}
ModuleBuilder& ModuleBuilder::define(const std::string& source) {
  impl_->module.define(source, std::make_shared<TestResolver>());
  return *this;
}
ModuleBuilder& ModuleBuilder::freeze() {
  impl_->module.eval();
  impl_->module = torch::jit::freeze(impl_->module);
  return *this;
}
void ModuleBuilder::save(const std::string& file) const {
  impl_->module.save(file);
}

ModelDirectory::ModelDirectory() {
  start_torch();
  std::string pattern = (std::filesystem::temp_directory_path() / "mme_torch_XXXXXX").string();
  directory_ = mkdtemp(pattern.data());
}

ModelDirectory::~ModelDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::filesystem::path ModelDirectory::next_file() {
  return directory_ / ("m" + std::to_string(files_++) + ".pt");
}

loader::ModelSpec ModelDirectory::script(const std::string& source) {
  ModuleBuilder module;
  module.define(source);
  return save(module);
}

loader::ModelSpec ModelDirectory::save(const ModuleBuilder& module) {
  const auto file = next_file();
  module.save(file.string());
  loader::ModelSpec spec;
  spec.name = file.stem().string();
  spec.artifact = identify(file);
  return spec;
}

loader::ModelSpec ModelDirectory::bytes(const std::string& content) {
  const auto file = next_file();
  std::ofstream(file, std::ios::binary) << content;
  loader::ModelSpec spec;
  spec.name = file.stem().string();
  spec.artifact = identify(file);
  return spec;
}

loader::ModelSpec ModelDirectory::rewritten(const loader::ModelSpec& spec,
                                            const std::function<std::string(const std::string&, std::string)>& edit) {
  caffe2::serialize::PyTorchStreamReader reader(spec.artifact.path);
  std::vector<ZipMember> members;
  for (const std::string& name : reader.getAllRecords()) {
    const auto [data, size] = reader.getRecord(name);
    ZipMember member;
    member.name = "m/" + name;
    member.content = edit(member.name, std::string(static_cast<const char*>(data.get()), size));
    members.push_back(std::move(member));
  }
  return bytes(ZipWriter().write(members));
}

std::string ModelDirectory::content(const loader::ModelSpec& spec) {
  std::ostringstream text;
  text << std::ifstream(spec.artifact.path, std::ios::binary).rdbuf();
  return text.str();
}

loader::ArtifactId identify(const std::filesystem::path& file) {
  return artifact_of(file);
}

void start_torch() {
  static const bool started = [] {
    loader::start_torch_runtime(1);
    loader::enter_torch_thread();
    return true;
  }();
  static_cast<void>(started);
}

Bytes bytes_of(const loader::Footprint& footprint) {
  Bytes bytes{footprint.private_bytes, footprint.code_bytes};
  for (const loader::Segment& segment : footprint.segments) {
    (segment.code ? bytes.code : bytes.weights) += segment.bytes;
  }
  return bytes;
}

std::size_t bytes_of(const loader::Estimate& estimate) {
  std::size_t bytes = estimate.private_bytes;
  for (const loader::Segment& segment : estimate.segments) bytes += segment.bytes;
  return bytes;
}

std::unique_ptr<loader::Model> load_with(const loader::TorchLoader& torch, const loader::ModelSpec& spec) {
  loader::LoadContext context;
  context.memory = std::make_shared<CountingGrant>(std::size_t{1} << 40);
  auto model = torch.load(spec, context);
  if (!model) FAIL(model.error().message);
  return std::move(*model);
}

std::unique_ptr<loader::Model> load(const loader::ModelSpec& spec, const loader::LoaderOptions& options) {
  return load_with(loader::TorchLoader(options), spec);
}

loader::Error load_error(const loader::ModelSpec& spec) {
  loader::LoadContext context;
  context.memory = std::make_shared<CountingGrant>(std::size_t{1} << 40);
  const auto model = loader::TorchLoader().load(spec, context);
  if (model) FAIL("it loaded");
  return model.error();
}

Tensor floats(loader::Shape shape, std::vector<float> values) {
  return Tensor::take<float>(loader::DataType::fp32, std::move(shape), std::move(values)).value();
}
Tensor integers(loader::Shape shape, std::vector<std::int64_t> values) {
  return Tensor::take<std::int64_t>(loader::DataType::int64, std::move(shape), std::move(values)).value();
}
Tensor texts(std::vector<std::string> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::strings({count}, std::move(values)).value();
}
std::vector<float> values_of(const Tensor& tensor) {
  return elements<float>(tensor);
}

loader::Result<loader::TensorMap> call(loader::Model& model, const loader::TensorMap& inputs) {
  loader::CallContext context;
  context.memory = std::make_shared<CountingGrant>();
  return model.infer(inputs, context);
}

std::vector<std::string> names_of(const loader::TensorMap& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  return names;
}

}  // namespace mme::test
