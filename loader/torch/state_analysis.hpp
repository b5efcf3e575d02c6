// Finds, before a model runs, whether a call may write to the model's own state or to its inputs.
// Reads graphs and the object tree; never runs anything. Errs towards "may write".
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace mme::loader {

struct WriteReport {
  bool writes_state = false;            ///< a second call may see what the first one did, or race with it
  std::vector<bool> written_arguments;  ///< of forward, without self: those whose memory may be written to
  std::string reason;                   ///< what first writes to the state, for logs; empty when nothing does
};

/// `module` must have a forward and be in the mode (eval) that it will be called in.
[[nodiscard]] WriteReport find_writes(const torch::jit::Module& module);

}  // namespace mme::loader
