#include "server/dialects/administration.hpp"

#include "server/codecs/json_reader.hpp"
#include "server/codecs/json_writer.hpp"
#include "server/dialects/respond.hpp"
#include "server/http/reply.hpp"
#include "server/http/status.hpp"

namespace mme::server {
namespace {

void append_texts(std::string& out, std::string_view key, const std::vector<std::string>& texts) {
  append_key(out, key);
  out += '[';
  for (const auto& text : texts) {
    if (out.back() != '[') out += ',';
    append_string(out, text);
  }
  out += ']';
}

Reply reply_to(Exchange& exchange, const SettingsOutcome& outcome) {
  Reply reply = json_reply(write_outcome(outcome));
  if (!outcome.error) return reply;
  exchange.record.reason = loader::reason(outcome.error->code);
  reply.status = http_status(outcome.error->code);
  annotate(reply, outcome.error->code);
  return reply;
}

}  // namespace

std::vector<Route> Administration::routes() {
  return {
      {Method::post, "/admin/reload", Access::admin, [this](Exchange& exchange) { return reload(exchange); }},
      {Method::put, "/admin/budget", Access::admin, [this](Exchange& exchange) { return set_budget(exchange); }},
  };
}

Reply Administration::error_reply(const Error& error) const {
  return neutral_error(error);
}

asio::awaitable<Reply> Administration::reload(Exchange& exchange) {
  const auto outcome = co_await settings_.reload();
  co_return reply_to(exchange, outcome);
}

asio::awaitable<Reply> Administration::set_budget(Exchange& exchange) {
  auto size = read_budget_request(exchange.request.body);
  if (size.has_error()) co_return refuse(*this, exchange, size.error());
  const auto outcome = co_await settings_.set_budget(std::move(*size));
  co_return reply_to(exchange, outcome);
}

Result<std::optional<std::string>> read_budget_request(std::string_view body) {
  const auto document = JsonDocument::parse(body);
  if (document.has_error()) return document.error();
  const auto object = JsonObject::read(document->root(), "the request");
  if (object.has_error()) return object.error();
  const auto value = object->require("memory_budget");
  if (value.has_error()) return value.error();
  if (value->is_null()) return std::optional<std::string>();
  std::uint64_t bytes = 0;
  if (value->get(bytes) == simdjson::SUCCESS) return std::optional(std::to_string(bytes));
  std::string_view text;
  if (value->get(text) == simdjson::SUCCESS) return std::optional(std::string(text));
  return fail(ErrorCode::invalid_request, "'memory_budget' must be a size such as \"200MiB\", \"auto\" or null, not " +
                                              std::string(kind_of(*value)));
}

std::string write_outcome(const SettingsOutcome& outcome) {
  std::string out = "{";
  if (outcome.error) {
    append_key(out, "error");
    append_string(out, outcome.error->message);
    append_texts(out, "problems", outcome.problems);
    append_texts(out, "needs_restart", outcome.needs_restart);
    return out + "}";
  }
  append_texts(out, "applied", outcome.applied);
  append_key(out, "shadowed");
  out += '[';
  for (const auto& change : outcome.shadowed) {
    if (out.back() != '[') out += ',';
    out += '{';
    append_key(out, "key");
    append_string(out, change.key);
    append_key(out, "by");
    append_string(out, change.by);
    out += '}';
  }
  out += ']';
  append_key(out, "memory_budget_bytes");
  append_number(out, outcome.budget_bytes);
  return out + "}";
}

}  // namespace mme::server
