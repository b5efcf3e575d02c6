// Sends one request through a router without a socket, on an io_context of the calling thread.
// Framing, headers of the connection and time-outs are the session's and are not here.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <string>
#include <utility>

#include "server/http/router.hpp"
#include "server/http/uri.hpp"
#include "tests/support/leak_check.hpp"

namespace mme::test {

/// `target`: path and query as on the wire.
inline server::Request request_of(server::Method method, std::string_view target, std::string body = {},
                                  server::Headers headers = {}) {
  server::Request request;
  const std::size_t mark = target.find('?');
  request.method = method;
  request.path = target.substr(0, mark);
  if (mark != std::string_view::npos) request.query = server::decode_query(target.substr(mark + 1)).value();
  request.headers = std::move(headers);
  request.body = std::move(body);
  return request;
}

struct Answer {
  server::Reply reply;
  server::AccessRecord record;

  [[nodiscard]] std::string header(std::string_view name) const {
    return std::string(server::find_header(reply.headers, name).value_or(""));
  }
};

inline server::asio::awaitable<void> handle_into(const server::Router& router, server::Request& request,
                                                 Answer& answer) {
  answer.reply = co_await router.handle(request, answer.record);
}

inline Answer call(const server::Router& router, server::Request request) {
  // Lives on: a thread that handed the answer over may still be inside post() when run() returns.
  thread_local server::asio::io_context context;
  context.restart();
  Answer answer;
  std::exception_ptr escaped;
  server::asio::co_spawn(context, handle_into(router, request, answer),
                         [&escaped](std::exception_ptr error) { escaped = std::move(error); });
  context.run();
  if (escaped) std::rethrow_exception(escaped);
  std::string sent = request.path + '\n' + request.body;
  for (const auto& values : {request.query, request.headers}) {
    for (const auto& [name, value] : values) sent += '\n' + value;
  }
  demand_no_leak(answer.reply.status, answer.reply.body, sent);
  return answer;
}

}  // namespace mme::test
