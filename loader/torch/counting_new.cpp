// Replaces the global operator new and delete of the program that links it: every block is charged to an account.
// Decides nothing: an account that refuses means std::bad_alloc. Not linked in sanitizer builds, whose own it would
// hide.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "loader/torch/memory_account.hpp"

namespace {

using mme::loader::BlockKind;
using mme::loader::MemoryAccount;

/// Lies directly before each block.
struct Header {
  std::size_t charged;
  MemoryAccount* account;
};
static_assert(sizeof(Header) == 16 && alignof(std::max_align_t) == 16);

std::size_t header_room(std::size_t alignment) noexcept {
  return alignment > sizeof(Header) ? alignment : sizeof(Header);
}

void* obtain(std::size_t size, std::size_t alignment) noexcept {
  const std::size_t room = header_room(alignment);
  std::size_t whole = 0;
  if (__builtin_add_overflow(size, room, &whole)) return nullptr;
  MemoryAccount* account = mme::loader::current_account();
  if (account != nullptr && !account->charge(whole, BlockKind::object)) return nullptr;
  void* base = nullptr;
  if (room == sizeof(Header)) {
    base = std::malloc(whole);
  } else if (posix_memalign(&base, alignment, whole) != 0) {
    base = nullptr;
  }
  if (base == nullptr) {
    if (account != nullptr) {
      account->mark_refused();
      account->release(whole, BlockKind::object);
    }
    return nullptr;
  }
  auto* block = static_cast<std::byte*>(base) + room;
  reinterpret_cast<Header*>(block)[-1] = {whole, account};
  return block;
}

void* obtain_or_throw(std::size_t size, std::size_t alignment) {
  void* block = obtain(size, alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void give_back(void* block, std::size_t alignment) noexcept {
  if (block == nullptr) return;
  const Header header = static_cast<Header*>(block)[-1];
  std::free(static_cast<std::byte*>(block) - header_room(alignment));
  if (header.account != nullptr) header.account->release(header.charged, BlockKind::object);
}

constexpr std::size_t ordinary = alignof(std::max_align_t);
std::size_t value(std::align_val_t alignment) noexcept {
  return static_cast<std::size_t>(alignment);
}

}  // namespace

// clang-format off
void* operator new(std::size_t n) { return obtain_or_throw(n, ordinary); }
void* operator new[](std::size_t n) { return obtain_or_throw(n, ordinary); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return obtain(n, ordinary); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return obtain(n, ordinary); }
void* operator new(std::size_t n, std::align_val_t a) { return obtain_or_throw(n, value(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return obtain_or_throw(n, value(a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return obtain(n, value(a)); }
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return obtain(n, value(a)); }

void operator delete(void* p) noexcept { give_back(p, ordinary); }
void operator delete[](void* p) noexcept { give_back(p, ordinary); }
void operator delete(void* p, std::size_t) noexcept { give_back(p, ordinary); }
void operator delete[](void* p, std::size_t) noexcept { give_back(p, ordinary); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give_back(p, ordinary); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give_back(p, ordinary); }
void operator delete(void* p, std::align_val_t a) noexcept { give_back(p, value(a)); }
void operator delete[](void* p, std::align_val_t a) noexcept { give_back(p, value(a)); }
void operator delete(void* p, std::size_t, std::align_val_t a) noexcept { give_back(p, value(a)); }
void operator delete[](void* p, std::size_t, std::align_val_t a) noexcept { give_back(p, value(a)); }
void operator delete(void* p, std::align_val_t a, const std::nothrow_t&) noexcept { give_back(p, value(a)); }
void operator delete[](void* p, std::align_val_t a, const std::nothrow_t&) noexcept { give_back(p, value(a)); }
// clang-format on
