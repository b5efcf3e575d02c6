// One keep-alive HTTP/1.1 connection of a client, as coroutines.
// No retries, no redirects, no TLS: a load generator must see what happened.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/system/result.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace mme::server {

struct ClientRequest {
  std::string_view method;        ///< a verb that Beast knows, in upper case
  std::string_view target;        ///< path and query, already encoded
  std::string_view content_type;  ///< empty: no such header
  std::string_view body;          ///< must outlive the call
};

struct ClientReply {
  unsigned status = 0;
  std::string reason;  ///< X-MME-Reason; empty when absent
  std::string body;
};

/// Used by one coroutine at a time, on one thread at a time.
class ClientConnection {
 public:
  /// `timeout` bounds the connect, and each request from its first byte to the last of its reply.
  ClientConnection(boost::asio::any_io_executor executor, boost::asio::ip::tcp::endpoint server,
                   std::chrono::nanoseconds timeout);

  /// Connects anew, whatever was open before.
  boost::asio::awaitable<boost::system::error_code> connect();
  /// Connects first when nothing is open. After an error the connection is closed; after a reply that says
  /// `Connection: close` too.
  boost::asio::awaitable<boost::system::result<ClientReply>> send(ClientRequest request);

 private:
  boost::asio::awaitable<boost::system::result<ClientReply>> exchange(ClientRequest request);

  boost::asio::any_io_executor executor_;
  boost::asio::ip::tcp::endpoint server_;
  std::chrono::nanoseconds timeout_;
  std::optional<boost::beast::tcp_stream> stream_;  ///< empty while nothing is open
  boost::beast::flat_buffer buffer_;
};

}  // namespace mme::server
