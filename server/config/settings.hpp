// Every setting that the program acts on, with its default. Plain data.
// How a setting is spelled and checked is in keys; where its value came from is in resolve.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "loader/tensor.hpp"
#include "server/config/log_level.hpp"

namespace mme::server {

using std::chrono::milliseconds;

enum class Mode {
  self_managed,  ///< invoking a stored model loads it, the cache evicts
  platform,      ///< only what was loaded by an admin call exists; nothing is evicted by ourselves
  single,        ///< one model, loaded at start, serves /invocations
};

/// Which model files are mapped instead of copied.
enum class MapFiles {
  leased,   ///< those that nobody can write to without our being told first
  trusted,  ///< all: their owner replaces and never rewrites them
  off,      ///< none
};

/// How a rewritten artifact takes the place of the one in memory.
enum class Replace {
  beside,   ///< loaded beside the old one; refused when there is no room for both
  offline,  ///< the old one goes first when there is no room for both
};

/// What an operator says about one input or output, in the order of `forward`.
struct TensorOptions {
  std::string name;
  std::optional<loader::DataType> datatype;
  std::optional<loader::Shape> shape;  ///< -1 stands for "any"

  friend bool operator==(const TensorOptions&, const TensorOptions&) = default;
};

/// Settings of one model, under `models: {NAME: ...}` or in the model's own file. A nullopt is "not said here".
struct ModelOptions {
  std::optional<bool> pinned;                  ///< never evicted to make room
  std::optional<unsigned> queue_size;          ///< calls that wait; else queue.size
  std::optional<milliseconds> timeout;         ///< lowers timeouts.request for this model
  std::optional<std::string> default_version;  ///< answers when no version is named; else the highest
  std::vector<std::string> aliases;            ///< further names
  std::optional<Replace> replace;              ///< how a rewritten artifact takes over; else beside
  std::vector<TensorOptions> inputs;
  std::vector<TensorOptions> outputs;

  /// What is not said here, as `other` says it.
  [[nodiscard]] ModelOptions or_else(const ModelOptions& other) const;
};

/// Sizes are bytes. A nullopt is `auto` (the machine decides) or `off`, as the comment says.
struct Settings {
  Mode mode = Mode::self_managed;

  struct {
    std::string path = "models";
    std::string state = "auto";  ///< folder; auto: .mme below path; off: none
  } repository;

  struct {
    std::string host = "127.0.0.1";
    std::uint16_t port = 8080;  ///< 0: any free one
  } listener;

  struct {
    std::string token_file;
    std::string token;  ///< empty: none. From MME_ADMIN_TOKEN or the first line of token_file; never shown
  } admin;

  struct {
    unsigned io = 2;
    std::optional<unsigned> compute;  ///< auto: the cores that the machine or its cgroup gives
    unsigned loader = 2;
    unsigned intra_op = 1;
  } threads;

  struct {
    std::optional<std::uint64_t> memory_budget;     ///< auto: see memory_budget.hpp
    std::optional<std::uint64_t> activation_floor;  ///< auto: 5 % of the budget, at least 32 MiB
    milliseconds room_wait{30'000};
    milliseconds claim_after{1'000};
    milliseconds load_timeout{300'000};
    std::optional<milliseconds> idle_unload;  ///< off
    bool prefault = true;                     ///< loads bring mapped weights into memory
    MapFiles map = MapFiles::leased;
    std::vector<std::string> pinned;
    std::vector<std::string> preload;
  } cache;

  struct {
    std::uint64_t body = std::uint64_t{64} << 20;
    std::uint64_t response = std::uint64_t{256} << 20;
    std::uint64_t headers = std::uint64_t{8} << 10;
    unsigned connections = 4096;
    std::optional<unsigned> running_calls;  ///< calls of all models that run at once; off: as many as compute threads
  } limits;

  struct {
    milliseconds header{10'000};
    milliseconds body_idle{30'000};
    milliseconds write_idle{30'000};
    milliseconds request{60'000};
    milliseconds keep_alive{75'000};
    milliseconds drain{24'000};
    milliseconds drain_delay{0};
  } timeouts;

  struct {
    unsigned size = 128;  ///< calls that wait per model
  } queue;

  struct {
    unsigned per_model = 1000;  ///< models with series of their own
  } metrics;

  struct {
    LogLevel level = LogLevel::access;
  } log;

  std::map<std::string, ModelOptions> models;
  std::map<std::string, std::string> real_names;  ///< by alias; what `models` says, for look-up

  /// Where what is learned is kept; nullopt: nowhere.
  [[nodiscard]] std::optional<std::filesystem::path> state_folder() const;

  /// The model that a name stands for: the one that has it as an alias, else the name itself.
  [[nodiscard]] std::string real_name(const std::string& name) const;

  /// The options of one model, `cache.pinned` taken in.
  [[nodiscard]] ModelOptions options_of(const std::string& model) const;
  /// Calls that run at once: the compute threads, or fewer where limits.running_calls says so. At least 1.
  [[nodiscard]] unsigned compute_threads(unsigned cores) const;
};

}  // namespace mme::server
