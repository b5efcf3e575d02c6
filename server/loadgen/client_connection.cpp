// A plain Beast client.
// It never asks twice for the same thing.
#include "server/loadgen/client_connection.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/span.hpp>
#include <boost/beast/http.hpp>
#include <limits>
#include <utility>

namespace mme::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using SpanRequest = http::request<http::span_body<const char>>;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

std::string host_header(const asio::ip::tcp::endpoint& server) {
  const std::string address = server.address().to_string();
  return (server.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(server.port());
}

SpanRequest make_request(const ClientRequest& request, const asio::ip::tcp::endpoint& server) {
  SpanRequest made;
  made.version(11);
  made.method(http::string_to_verb(request.method));
  made.target(request.target);
  made.set(http::field::host, host_header(server));
  if (!request.content_type.empty()) made.set(http::field::content_type, request.content_type);
  made.body() = beast::span<const char>(request.body.data(), request.body.size());
  made.prepare_payload();
  return made;
}

}  // namespace

ClientConnection::ClientConnection(asio::any_io_executor executor, asio::ip::tcp::endpoint server,
                                   std::chrono::nanoseconds timeout)
    : executor_(std::move(executor)), server_(std::move(server)), timeout_(timeout) {}

asio::awaitable<error_code> ClientConnection::connect() {
  stream_.emplace(executor_);
  buffer_.clear();
  stream_->expires_after(timeout_);
  const auto [problem] = co_await stream_->async_connect(server_, kNoThrow);
  if (problem) {
    stream_.reset();
    co_return problem;
  }
  error_code ignored;
  stream_->socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  co_return error_code();
}

asio::awaitable<boost::system::result<ClientReply>> ClientConnection::send(ClientRequest request) {
  if (!stream_) {
    const error_code problem = co_await connect();
    if (problem) co_return problem;
  }
  boost::system::result<ClientReply> reply = co_await exchange(request);
  if (!reply) stream_.reset();
  co_return reply;
}

asio::awaitable<boost::system::result<ClientReply>> ClientConnection::exchange(ClientRequest request) {
  const SpanRequest message = make_request(request, server_);
  stream_->expires_after(timeout_);
  const auto [write_problem, written] = co_await http::async_write(*stream_, message, kNoThrow);
  // A server may answer and close before it has read a body that it refuses: the answer counts.
  http::response_parser<http::string_body> parser;
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());
  parser.skip(message.method() == http::verb::head);
  const auto [read_problem, read] = co_await http::async_read(*stream_, buffer_, parser, kNoThrow);
  if (read_problem) co_return write_problem ? write_problem : read_problem;
  const bool keep = parser.get().keep_alive() && !write_problem;
  ClientReply reply;
  reply.status = parser.get().result_int();
  reply.reason = std::string(parser.get()["X-MME-Reason"]);
  reply.body = std::move(parser.get().body());
  if (!keep) stream_.reset();
  co_return reply;
}

}  // namespace mme::server
