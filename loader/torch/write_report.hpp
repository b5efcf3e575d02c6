// What a call of a model may write to.
#pragma once

#include <cstddef>
#include <vector>

namespace mme::loader {

struct WriteReport {
  bool writes_state = false;  ///< a second call may see what the first one did, or race with it
  bool writes_any = false;    ///< nobody can tell which of the model's tensors, or it is to a constant of its code
  /// Else the tensors whose memory may be written to, ascending: their numbers in ObjectShape::tensors. None when it
  /// only sets attributes.
  std::vector<std::size_t> written_tensors;
  std::vector<bool> written_arguments;  ///< of forward, without self: those whose memory may be written to
};

}  // namespace mme::loader
