#include "loader/error.hpp"

#include <stdexcept>

namespace mme::loader {

std::string_view reason(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_request: return "invalid_request";
    case ErrorCode::invalid_tensor: return "invalid_tensor";
    case ErrorCode::unauthorized: return "unauthorized";
    case ErrorCode::forbidden: return "forbidden";
    case ErrorCode::route_unknown: return "route_unknown";
    case ErrorCode::method_not_allowed: return "method_not_allowed";
    case ErrorCode::not_acceptable: return "not_acceptable";
    case ErrorCode::read_timeout: return "read_timeout";
    case ErrorCode::body_too_large: return "body_too_large";
    case ErrorCode::target_too_long: return "target_too_long";
    case ErrorCode::headers_too_large: return "headers_too_large";
    case ErrorCode::media_type_unsupported: return "media_type_unsupported";
    case ErrorCode::expectation_failed: return "expectation_failed";
    case ErrorCode::method_not_implemented: return "method_not_implemented";
    case ErrorCode::version_not_supported: return "version_not_supported";
    case ErrorCode::model_unknown: return "model_unknown";
    case ErrorCode::already_loaded: return "already_loaded";
    case ErrorCode::conflict: return "conflict";
    case ErrorCode::model_broken: return "model_broken";
    case ErrorCode::inference_failed: return "inference_failed";
    case ErrorCode::not_ready: return "not_ready";
    case ErrorCode::settling: return "settling";
    case ErrorCode::quarantined: return "quarantined";
    case ErrorCode::queue_full: return "queue_full";
    case ErrorCode::load_timeout: return "load_timeout";
    case ErrorCode::deadline_exceeded: return "deadline_exceeded";
    case ErrorCode::cannot_fit: return "cannot_fit";
    case ErrorCode::all_in_use: return "all_in_use";
    case ErrorCode::activations: return "activations";
    case ErrorCode::storage_full: return "storage_full";
    case ErrorCode::shutting_down: return "shutting_down";
    case ErrorCode::internal: return "internal";
  }
  return "internal";
}

void throw_exception_from_error(const Error& error, const boost::source_location&) {
  throw std::logic_error("value() of an error: " + error.message);
}

}  // namespace mme::loader
