#include "server/http/text_room.hpp"

#include <new>
#include <stdexcept>
#include <utility>

namespace mme::server {
namespace {

/// string::reserve() may take twice what the string held, which nobody has charged.
bool move_to(std::string& text, std::size_t capacity) {
  try {
    std::string larger;
    larger.reserve(capacity);
    larger.append(text);
    text.swap(larger);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const std::length_error&) {
    return false;
  }
}

}  // namespace

bool TextRoom::charge(std::size_t capacity) {
  if (!claim_ || capacity <= uncharged_) return true;
  if (grant_) return grant_->grow(capacity);
  grant_ = claim_(capacity);
  return grant_ != nullptr;
}

/// While the bytes move to their new place both places are charged.
bool TextRoom::reserve(std::string& text, std::size_t more) {
  const auto held = text.capacity();
  if (held - text.size() >= more) return true;
  const auto wanted = text.size() + more;
  const bool held_is_charged = grant_ != nullptr;
  if (!charge(wanted)) return false;
  const bool moved = move_to(text, wanted);
  if (held_is_charged) {
    grant_->shrink(moved ? held : wanted);
  } else if (!moved) {
    grant_.reset();
  }
  return moved;
}

}  // namespace mme::server
