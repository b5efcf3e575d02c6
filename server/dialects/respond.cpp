#include "server/dialects/respond.hpp"

#include "loader/repository/names.hpp"
#include "server/codecs/json_reader.hpp"

namespace mme::server {

Reply json_reply(std::string body) {
  return Reply{200, {{"Content-Type", "application/json"}}, std::move(body)};
}

Reply empty_reply() {
  return Reply{};
}

Reply refuse(const Dialect& dialect, Exchange& exchange, const Error& error) {
  exchange.record.reason = loader::reason(error.code);
  return dialect.error_reply(error);
}

asio::awaitable<Reply> at_once(Reply reply) {
  co_return reply;
}

Result<ModelRef> model_ref(std::string name, std::optional<std::string> version) {
  if (!loader::is_valid_model_name(name)) {
    return fail(ErrorCode::invalid_request, shown(name) + " cannot be the name of a model");
  }
  if (version && !loader::is_valid_version(*version)) {
    return fail(ErrorCode::invalid_request, shown(*version) + " cannot be a version: 1 to 18 digits");
  }
  return ModelRef{std::move(name), std::move(version)};
}

Result<ModelRef> model_ref(const std::vector<std::string>& parameters) {
  return model_ref(parameters.at(0), parameters.size() > 1 ? std::optional(parameters[1]) : std::nullopt);
}

}  // namespace mme::server
