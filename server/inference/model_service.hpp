// What the dialects can ask of the server, protocol-neutral. Implemented by InferenceService; faked in dialect tests.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "loader/model.hpp"
#include "server/http/message.hpp"

namespace mme::server {

namespace asio = boost::asio;

/// A model as a client names it. The name is already decoded and checked by loader::is_valid_model_name().
struct ModelRef {
  std::string name;
  std::optional<std::string> version;
};

struct InferenceTiming {
  std::string cache;  ///< hit, miss, joined
  double queue_ms = 0;
  double load_ms = 0;
  double run_ms = 0;
};

struct InferenceResult {
  loader::TensorMap outputs;
  std::optional<std::string> version;  ///< of the model that answered; nullopt when unversioned
  InferenceTiming timing;
};

/// The states of contracts.md section 4, as lists and health answers show them.
enum class Presence { stored, loading, ready, draining, broken };

struct ModelInfo {
  std::string name;
  std::optional<std::string> version;
  std::vector<std::string> versions;  ///< all versions on disk
  Presence presence = Presence::stored;
  std::string reason;  ///< why it is not ready, one line
  std::string url;     ///< relative to the repository; safe to show
  std::size_t memory_bytes = 0;
  bool stateless = true;
  /// What an operator declared about them; they are listed also while the model is not in memory.
  std::vector<loader::TensorInfo> declared_inputs;
  std::vector<loader::TensorInfo> declared_outputs;
  /// Known only once the model has been in memory.
  std::optional<loader::Signature> signature;
};

/// All members may be called on any io thread; they never block.
class ModelService {
 public:
  virtual ~ModelService() = default;

  /// Runs a model, loading it on demand. Ends by the deadline with deadline_exceeded at the latest.
  /// `record` gets model, cache and times as soon as they are known, also on errors.
  virtual asio::awaitable<Result<InferenceResult>> infer(ModelRef model, loader::TensorMap inputs, Deadline deadline,
                                                         AccessRecord& record) = 0;
  /// Explicit load. `url`: nullopt for the artifact that the name has; else a path inside the repository.
  /// already_loaded when it is in memory.
  virtual asio::awaitable<Result<ModelInfo>> load(ModelRef model, std::optional<std::string> url,
                                                  Deadline deadline) = 0;
  /// Done when the memory is back. model_unknown when the model is not in memory.
  virtual asio::awaitable<Result<void>> unload(ModelRef model, Deadline deadline) = 0;

  /// One model, on disk or in memory. model_unknown, conflict.
  virtual Result<ModelInfo> describe(const ModelRef& model) = 0;
  /// Models in memory (ready only), sorted by name.
  virtual std::vector<ModelInfo> in_memory() = 0;
  /// Everything on disk with its presence, sorted by name and version.
  virtual std::vector<ModelInfo> index() = 0;

  /// Everything on disk, whatever the mode; differs from index() where only models in memory exist.
  virtual std::vector<ModelInfo> repository() { return index(); }
  /// The datatype that an operator declared for a model's first input, for protocols whose requests name none.
  virtual std::optional<loader::DataType> first_input_type(const ModelRef&) { return std::nullopt; }

  /// Ready: start-up work is done, not draining, the load path moves.
  virtual bool ready() = 0;
  /// /ping: live and not draining; in mode single also started.
  virtual bool accepting() = 0;
  /// Why accepting() is false.
  virtual bool draining() { return !accepting(); }
};

}  // namespace mme::server
