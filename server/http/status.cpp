// Errors become HTTP here and nowhere else.
// Error bodies are not written here: each dialect owns the shape of its own.
#include "server/http/status.hpp"

#include <boost/beast/http/status.hpp>

namespace mme::server {

using loader::ErrorCode;

// No default label: a new code without a status is a compiler warning, and the build treats it as one to fix.
unsigned http_status(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_request:
    case ErrorCode::invalid_tensor: return 400;
    case ErrorCode::unauthorized: return 401;
    case ErrorCode::forbidden: return 403;
    case ErrorCode::model_unknown:
    case ErrorCode::route_unknown: return 404;
    case ErrorCode::method_not_allowed: return 405;
    case ErrorCode::not_acceptable: return 406;
    case ErrorCode::read_timeout: return 408;
    case ErrorCode::already_loaded:
    case ErrorCode::conflict: return 409;
    case ErrorCode::body_too_large: return 413;
    case ErrorCode::target_too_long: return 414;
    case ErrorCode::media_type_unsupported: return 415;
    case ErrorCode::expectation_failed: return 417;
    case ErrorCode::model_broken: return 422;
    case ErrorCode::queue_full: return 429;
    case ErrorCode::headers_too_large: return 431;
    case ErrorCode::inference_failed:
    case ErrorCode::internal: return 500;
    case ErrorCode::method_not_implemented: return 501;
    case ErrorCode::not_ready:
    case ErrorCode::settling:
    case ErrorCode::quarantined:
    case ErrorCode::shutting_down: return 503;
    case ErrorCode::load_timeout:
    case ErrorCode::deadline_exceeded: return 504;
    case ErrorCode::version_not_supported: return 505;
    case ErrorCode::cannot_fit:
    case ErrorCode::all_in_use:
    case ErrorCode::activations:
    case ErrorCode::storage_full: return 507;
  }
  return 500;
}

std::optional<unsigned> retry_after_seconds(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::queue_full:
    case ErrorCode::settling:
    case ErrorCode::not_ready:
    case ErrorCode::all_in_use:
    case ErrorCode::activations: return 1;
    case ErrorCode::shutting_down:
    case ErrorCode::load_timeout: return 5;
    case ErrorCode::quarantined: return 30;
    default: return std::nullopt;
  }
}

std::string_view status_phrase(unsigned status) noexcept {
  if (status == 499) return "Client Closed Request";
  if (status == 424) return "Failed Dependency";
  const auto known = boost::beast::http::int_to_status(status);
  if (known == boost::beast::http::status::unknown) return "Unknown";
  const auto text = boost::beast::http::obsolete_reason(known);
  return {text.data(), text.size()};
}

bool closes_connection(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::read_timeout:
    case ErrorCode::body_too_large:
    case ErrorCode::target_too_long:
    case ErrorCode::headers_too_large:
    case ErrorCode::expectation_failed:
    case ErrorCode::method_not_implemented:
    case ErrorCode::version_not_supported:
    case ErrorCode::shutting_down: return true;
    default: return false;
  }
}

}  // namespace mme::server
