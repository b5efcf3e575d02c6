// Room in the memory budget for one text that grows: a request body while it is read, a reply while it is written.
// Charges before the text takes memory, and only what really is allocated.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "server/http/message.hpp"

namespace mme::server {

/// Used by one thread at a time. The claim must outlive it.
class TextRoom {
 public:
  TextRoom(const BodyClaim& claim, std::size_t uncharged) : claim_(claim), uncharged_(uncharged) {}
  TextRoom(const TextRoom&) = delete;
  TextRoom& operator=(const TextRoom&) = delete;

  /// Makes `text`, always the same one, able to take `more` bytes without moving. False: there is no room in the
  /// budget, or no memory; the text is as it was.
  [[nodiscard]] bool reserve(std::string& text, std::size_t more);

  /// Must be held as long as the text is. Null for a text too small to be charged.
  [[nodiscard]] std::shared_ptr<loader::MemoryGrant> take_grant() noexcept { return std::move(grant_); }

 private:
  [[nodiscard]] bool charge(std::size_t capacity);

  const BodyClaim& claim_;
  std::size_t uncharged_;
  std::shared_ptr<loader::MemoryGrant> grant_;
};

}  // namespace mme::server
