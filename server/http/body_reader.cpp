// Puts a request body together from the bytes that follow its head.
// No socket and no clock.
#include "server/http/body_reader.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>

#include "loader/guards.hpp"

namespace mme::server {
namespace {

namespace http = boost::beast::http;
using loader::guard;

Error too_large() {
  return fail(ErrorCode::body_too_large, "the request body is over the limit");
}
Error no_room() {
  return fail(ErrorCode::all_in_use, "there is no memory for this request body now");
}

/// Beast asserts that it never sees a part of this twice, which it does when the first chunk is the last and comes in
/// pieces. At least so many bytes are still to come while a body is not complete, so waiting for them holds nothing up.
constexpr std::string_view kLastChunk = "0\r\n\r\n";

std::string_view view(const boost::beast::flat_buffer& bytes) noexcept {
  return {static_cast<const char*>(bytes.data().data()), bytes.size()};
}

}  // namespace

BodyReader::BodyReader(const Head& head, const HttpLimits& limits, const BodyClaim& claim)
    : limits_(limits), kind_(head.body), expected_(head.body_size), room_(claim, limits.uncharged) {}

Result<void> BodyReader::begin() {
  if (kind_ == BodyKind::chunked) {
    // Beast takes the chunks apart. It is given a head of ours instead of the client's: what the client's means has
    // been decided by the guard, and a second opinion could only differ.
    chunks_.emplace();
    chunks_->eager(true);
    chunks_->body_limit(guard("body_limit") ? boost::optional<std::uint64_t>(limits_.body) : boost::none);
    boost::system::error_code error;
    constexpr std::string_view head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    chunks_->put(boost::asio::buffer(head), error);
    return {};
  }
  if (guard("body_limit") && expected_ > limits_.body) return too_large();
  return reserve(sized_, static_cast<std::size_t>(expected_));
}

Result<bool> BodyReader::put(boost::beast::flat_buffer& bytes) {
  if (kind_ == BodyKind::none) return true;
  return kind_ == BodyKind::sized ? put_sized(bytes) : put_chunked(bytes);
}

Result<bool> BodyReader::put_sized(boost::beast::flat_buffer& bytes) {
  const auto more = std::min<std::uint64_t>(expected_ - received_, bytes.size());
  sized_.append(view(bytes).substr(0, more));
  bytes.consume(static_cast<std::size_t>(more));
  received_ += more;
  return received_ == expected_;
}

Result<bool> BodyReader::put_chunked(boost::beast::flat_buffer& bytes) {
  if (view(bytes).starts_with('0') && bytes.size() < kLastChunk.size()) return false;
  auto& body = chunks_->get().body();
  if (auto room = reserve(body, bytes.size()); !room) return room.error();
  boost::system::error_code error;
  const auto used = chunks_->put(bytes.data(), error);
  bytes.consume(used);
  received_ = body.size();
  if (error == http::error::body_limit) return too_large();
  if (error && error != http::error::need_more) {
    return fail(ErrorCode::invalid_request, "the chunks of the request body are broken");
  }
  if (auto framing = check_framing(used, bytes.size()); !framing) return framing.error();
  return chunks_->is_done();
}

Result<void> BodyReader::check_framing(std::size_t consumed, std::size_t pending) {
  consumed_ += consumed;
  const bool done = chunks_->is_done();
  const auto framing = consumed_ - received_ + (done ? 0 : pending);
  if (!guard("chunk_framing_bound") || framing <= kFreeChunkFraming + received_ / 2) return {};
  return fail(ErrorCode::body_too_large, "the request body is cut into too small chunks");
}

/// A body of unknown size grows to twice what it had.
Result<void> BodyReader::reserve(std::string& body, std::size_t more) {
  const auto held = body.capacity();
  if (!guard("body_in_budget") || held - body.size() >= more) return {};
  return room_.reserve(body, std::max(more, 2 * held - body.size())) ? Result<void>{} : no_room();
}

std::string BodyReader::take_body() {
  return chunks_ ? std::move(chunks_->get().body()) : std::move(sized_);
}

}  // namespace mme::server
