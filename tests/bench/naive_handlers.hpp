// The handlers of both incidents, each in a process of its own, and the bare loop that everything is compared with.
// They are libtorch alone: nothing of the server runs in them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/bench_row.hpp"

namespace mme::bench {

/// Workers of every handler, of the bare loop and of the server beside them, as in the second incident.
inline constexpr int kWorkers = 4;

/// When a handler has its model.
inline constexpr const char* kLoadOnce = "once";           ///< the bare loop: one model, threads that run it
inline constexpr const char* kLoadEach = "each";           ///< incident 1: a load inside every request
inline constexpr const char* kLoadEachKept = "each_kept";  ///< the same, and something keeps every model
inline constexpr const char* kLoadWorker = "worker";       ///< incident 2: each worker loads a copy, all together

struct HandlerRun {
  Samples milliseconds;  ///< of each request that was answered
  int answered = 0;
  bool stopped = false;  ///< it passed the cap and was ended
};

/// One handler process. Commands one after another; it is killed with the object.
class HandlerProcess {
 public:
  /// `incident` chooses the requests: 1 or 2.
  HandlerProcess(const char* when, int incident, const std::filesystem::path& file, std::size_t cap);
  ~HandlerProcess();
  HandlerProcess(const HandlerProcess&) = delete;
  HandlerProcess& operator=(const HandlerProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  struct First {
    double milliseconds = 0;
    double answer = 0;  ///< first number of the output
  };
  /// Loads, answers one request and, unless it loads once, forgets the model.
  First first();
  /// Most bytes of tensors that one call held at once.
  std::size_t activations();
  HandlerRun run(int requests);

 private:
  void say(const std::string& command);
  std::optional<std::string> line();

  pid_t pid_ = -1;
  std::FILE* stream_ = nullptr;
};

/// The process itself: `mme_bench --handler WHEN INCIDENT FILE CAP`.
int handler_main(const std::vector<std::string>& arguments);

}  // namespace mme::bench
