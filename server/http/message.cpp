// Look-ups in requests. No parsing here: framing_guard and uri do that.
#include "server/http/message.hpp"

#include <boost/beast/core/string.hpp>

namespace mme::server {

std::string_view to_string(Method method) noexcept {
  switch (method) {
    case Method::get: return "GET";
    case Method::head: return "HEAD";
    case Method::post: return "POST";
    case Method::put: return "PUT";
    case Method::patch: return "PATCH";
    case Method::del: return "DELETE";
    case Method::options: return "OPTIONS";
    case Method::trace: return "TRACE";
  }
  return "";
}

std::optional<std::string_view> find_header(const Headers& headers, std::string_view name) noexcept {
  for (const auto& [key, value] : headers) {
    if (boost::beast::iequals(key, name)) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> Request::parameter(std::string_view name) const noexcept {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

}  // namespace mme::server
