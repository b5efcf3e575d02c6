// A client that sends exactly the bytes it is told to.
// Blocking, for tests only.
#include "tests/support/raw_http_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "tests/support/leak_check.hpp"

namespace mme::test {
namespace {

constexpr std::size_t kMostAnswers = std::size_t{1} << 20;
constexpr std::size_t kMostRemembered = std::size_t{1} << 18;

}  // namespace

std::string RawReply::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key.size() == name.size() && strncasecmp(key.data(), name.data(), name.size()) == 0) return value;
  }
  return {};
}

RawHttpClient::RawHttpClient(std::uint16_t port, std::chrono::milliseconds patience) : patience_(patience) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd_ < 0 || ::connect(fd_, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
    close();
    throw std::runtime_error("cannot connect");
  }
}

RawHttpClient::~RawHttpClient() {
  close();
}

RawHttpClient::RawHttpClient(RawHttpClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      ended_(other.ended_),
      reset_(other.reset_),
      patience_(other.patience_),
      buffer_(std::move(other.buffer_)),
      sent_(std::move(other.sent_)) {}

bool RawHttpClient::send(std::string_view bytes) {
  if (sent_.size() < kMostRemembered) sent_ += bytes.substr(0, kMostRemembered);
  while (!bytes.empty()) {
    const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void RawHttpClient::half_close() {
  ::shutdown(fd_, SHUT_WR);
}

void RawHttpClient::reset() {
  const linger at_once{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

void RawHttpClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool RawHttpClient::fill(std::chrono::milliseconds patience) {
  if (fd_ < 0 || ended_) return false;
  pollfd waiting{fd_, POLLIN, 0};
  if (::poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) return false;
  char piece[65536];
  const auto got = ::recv(fd_, piece, sizeof piece, 0);
  ended_ = got <= 0;
  reset_ = got < 0;
  if (got > 0) buffer_.append(piece, static_cast<std::size_t>(got));
  return got > 0;
}

std::optional<RawReply> RawHttpClient::take(bool head) {
  const auto end = buffer_.find("\r\n\r\n");
  if (end == buffer_.npos || buffer_.size() < 12) return std::nullopt;
  RawReply reply;
  reply.status = static_cast<unsigned>(std::strtoul(buffer_.c_str() + 9, nullptr, 10));
  for (auto at = buffer_.find("\r\n") + 2; at < end + 2;) {
    const auto line = buffer_.substr(at, buffer_.find("\r\n", at) - at);
    const auto colon = line.find(": ");
    if (colon != line.npos) reply.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
    at += line.size() + 2;
  }
  const auto size = head ? 0 : std::strtoul(reply.header("Content-Length").c_str(), nullptr, 10);
  if (buffer_.size() < end + 4 + size) return std::nullopt;
  reply.body = buffer_.substr(end + 4, size);
  buffer_.erase(0, end + 4 + size);
  demand_no_leak(reply.status, reply.body, sent_);
  return reply;
}

std::optional<RawReply> RawHttpClient::read(bool head) {
  for (;;) {
    if (auto reply = take(head)) return reply;
    if (!fill(patience_)) return std::nullopt;
  }
}

unsigned RawHttpClient::read_status(bool head) {
  const auto reply = read(head);
  return reply ? reply->status : 0;
}

std::string RawHttpClient::read_body() {
  auto reply = read();
  return reply ? std::move(reply->body) : std::string();
}

std::vector<RawReply> RawHttpClient::read_all(std::chrono::milliseconds quiet) {
  // A server that answers for ever must fail a test, not fill the memory.
  while (buffer_.size() < kMostAnswers && fill(quiet)) {
  }
  std::vector<RawReply> replies;
  while (auto reply = take(false)) replies.push_back(std::move(*reply));
  return replies;
}

bool RawHttpClient::closed() {
  const auto until = std::chrono::steady_clock::now() + patience_;
  while (fill(patience_) && std::chrono::steady_clock::now() < until) {
    if (buffer_.size() > kMostAnswers) buffer_.erase(0, buffer_.size() - kMostAnswers);
  }
  return ended_;
}

}  // namespace mme::test
