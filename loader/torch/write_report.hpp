// What a call of a model may write to.
#pragma once

#include <string>
#include <vector>

namespace mme::loader {

struct WriteReport {
  bool writes_state = false;            ///< a second call may see what the first one did, or race with it
  std::vector<bool> written_arguments;  ///< of forward, without self: those whose memory may be written to
  std::string reason;                   ///< what first writes to the state, for logs; empty when nothing does
};

}  // namespace mme::loader
