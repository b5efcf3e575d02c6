// Puts a request body together from the bytes that follow its head, and charges it before it takes room.
// No socket and no clock: the session feeds it. Whether there is a body at all was decided by the framing guard.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/framing_guard.hpp"
#include "server/http/text_room.hpp"

namespace mme::server {

/// Chunk headers, extensions and trailers may weigh this much, plus half of the body that they carry. It bounds tiny
/// chunks, long extensions and long trailers by one rule.
inline constexpr std::size_t kFreeChunkFraming = 16 * 1024;

/// Used by one thread at a time. The limits and the claim must outlive it.
class BodyReader {
 public:
  BodyReader(const Head& head, const HttpLimits& limits, const BodyClaim& claim);
  BodyReader(const BodyReader&) = delete;
  BodyReader& operator=(const BodyReader&) = delete;

  /// Claims room for a body of known size. Call before put(); all_in_use when there is none.
  Result<void> begin();
  /// Consumes from the front of `bytes` what belongs to the body. True when the body is complete; what is left in
  /// `bytes` is then the next request. Errors: body_too_large, invalid_request (broken chunks), all_in_use.
  Result<bool> put(boost::beast::flat_buffer& bytes);

  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
  [[nodiscard]] std::string take_body();
  /// Must be held as long as the body is. Null for a body too small to be charged.
  [[nodiscard]] std::shared_ptr<loader::MemoryGrant> take_grant() noexcept { return room_.take_grant(); }

 private:
  Result<bool> put_sized(boost::beast::flat_buffer& bytes);
  Result<bool> put_chunked(boost::beast::flat_buffer& bytes);
  Result<void> check_framing(std::size_t consumed, std::size_t pending);
  Result<void> reserve(std::string& body, std::size_t more);

  using ChunkParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  const HttpLimits& limits_;
  BodyKind kind_;
  std::uint64_t expected_;
  std::uint64_t received_ = 0;
  std::uint64_t consumed_ = 0;
  std::string sized_;
  std::optional<ChunkParser> chunks_;
  TextRoom room_;
};

}  // namespace mme::server
