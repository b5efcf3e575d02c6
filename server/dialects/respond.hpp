// What every dialect's handlers share: small replies, and the model that a path names.
// Knows no protocol; the shape of an error body stays with its dialect.
#pragma once

#include <string>
#include <vector>

#include "server/http/router.hpp"
#include "server/inference/model_service.hpp"

namespace mme::server {

[[nodiscard]] Reply json_reply(std::string body);
[[nodiscard]] Reply empty_reply();

/// The dialect's reply for an error, noted in the access record.
[[nodiscard]] Reply refuse(const Dialect& dialect, Exchange& exchange, const Error& error);

/// For handlers that wait for nothing.
[[nodiscard]] asio::awaitable<Reply> at_once(Reply reply);

/// A model by decoded name and version; invalid_request when either can be no name of ours.
[[nodiscard]] Result<ModelRef> model_ref(std::string name, std::optional<std::string> version = std::nullopt);
/// The same from a route's placeholders: {m} or {m}, {v}.
[[nodiscard]] Result<ModelRef> model_ref(const std::vector<std::string>& parameters);

}  // namespace mme::server
