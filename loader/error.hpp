// The closed list of things that can go wrong, as values.
// No HTTP here: server/http/status.hpp turns a code into a status in one exhaustive switch.
#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace mme::loader {

/// Every declared refusal of the server. The name of a code, as `reason()` spells it, is what a client sees in
/// `X-MME-Reason` and what the refusal counters are labelled with, so names are part of the public interface.
enum class ErrorCode {
  // The request itself.
  invalid_request,         ///< malformed JSON, an unknown or repeated field, a bad name
  invalid_tensor,          ///< shape, dtype or data of a tensor do not fit together or do not fit the model
  unauthorized,            ///< no token, or a wrong one
  forbidden,               ///< a Host that must not reach this listener
  route_unknown,           ///< no such path
  method_not_allowed,      ///< the path exists, the verb does not
  not_acceptable,          ///< no reply type the client accepts
  read_timeout,            ///< the client was too slow to send its request
  body_too_large,          ///< more body bytes than limits.body
  target_too_long,         ///< request target over the limit
  headers_too_large,       ///< header block over the limit
  media_type_unsupported,  ///< Content-Type or Content-Encoding nobody here reads
  expectation_failed,      ///< Expect: anything but 100-continue
  method_not_implemented,  ///< a verb nobody here knows
  version_not_supported,   ///< not HTTP/1.0 or HTTP/1.1
  // The model.
  model_unknown,     ///< no artifact of that name or version
  already_loaded,    ///< explicit load of a model that is in memory
  conflict,          ///< two artifacts for one name, or unloaded while waiting
  model_broken,      ///< the artifact cannot be loaded
  inference_failed,  ///< the model raised
  not_ready,         ///< the server is not ready to serve yet
  settling,          ///< the artifact is still being written
  quarantined,       ///< an earlier call of this model is stuck
  // Capacity.
  queue_full,         ///< the model's queue is full
  load_timeout,       ///< the load takes longer than cache.load_timeout; it goes on
  deadline_exceeded,  ///< the request's own deadline passed
  cannot_fit,         ///< out of memory: the model could never fit in the budget
  all_in_use,         ///< out of memory: everything that could make room is in use
  activations,        ///< out of memory: the call needs more room than there is
  storage_full,       ///< no disk space for an upload
  // The server.
  shutting_down,  ///< draining
  internal,       ///< a defect of ours
};

/// Spelling of a code on the wire and in logs and metrics: the enumerator's own name.
[[nodiscard]] std::string_view reason(ErrorCode code) noexcept;

/// One failure. `message` is one line for a stranger: it never holds a path, a stack frame or an address of the
/// machine. Safe to copy between threads.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = boost::system::result<T, Error>;

/// For `return fail(ErrorCode::invalid_tensor, "...")` in a function that returns any Result.
[[nodiscard]] inline Error fail(ErrorCode code, std::string message) {
  return Error{code, std::move(message)};
}

/// Found by `result<T, Error>::value()`: asking for the value of an error is a programming mistake.
[[noreturn]] void throw_exception_from_error(const Error& error, const boost::source_location& where);

}  // namespace mme::loader
