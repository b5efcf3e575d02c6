#include "tests/support/http_client.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "tests/support/leak_check.hpp"

namespace mme::test {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

std::string Response::header(const std::string& name) const {
  for (const auto& [key, value] : headers) {
    if (beast::iequals(key, name)) return value;
  }
  return "";
}

struct HttpClient::Impl {
  explicit Impl(unsigned short given) : port(given) {}

  void connect() {
    socket = asio::ip::tcp::socket(context);
    socket.connect({asio::ip::make_address("127.0.0.1"), port});
    socket.set_option(asio::ip::tcp::no_delay(true));
    buffer.clear();
  }

  Response exchange(const http::request<http::string_body>& request) {
    http::write(socket, request);
    http::response_parser<http::string_body> parser;
    parser.body_limit(std::uint64_t{1} << 32);
    parser.skip(request.method() == http::verb::head);
    http::read(socket, buffer, parser);
    Response response;
    response.status = parser.get().result_int();
    for (const auto& field : parser.get()) {
      response.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    if (!parser.get().keep_alive()) socket.close();
    response.body = std::move(parser.get().body());
    if (response.status >= 400) {
      std::string sent = std::string(request.target()) + '\n' + request.body();
      for (const auto& field : request) sent += '\n' + std::string(field.value());
      demand_no_leak(response.status, response.body, sent);
    }
    return response;
  }

  asio::io_context context;
  asio::ip::tcp::socket socket{context};
  beast::flat_buffer buffer;
  unsigned short port;
};

HttpClient::HttpClient(unsigned short port) : impl_(std::make_unique<Impl>(port)) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

Response HttpClient::send(const std::string& method, const std::string& target, const std::string& body,
                          const Headers& headers) {
  http::request<http::string_body> request;
  request.method_string(method);
  request.target(target);
  request.version(11);
  request.set(http::field::host, "127.0.0.1");
  for (const auto& [name, value] : headers) request.set(name, value);
  request.body() = body;
  request.prepare_payload();
  const bool reused = impl_->socket.is_open();
  if (!reused) impl_->connect();
  try {
    return impl_->exchange(request);
  } catch (const boost::system::system_error&) {
    // A kept connection may have been closed by its idle limit in the meantime; a fresh one may not.
    if (!reused) throw;
    impl_->connect();
    return impl_->exchange(request);
  }
}

}  // namespace mme::test
