#include "loader/torch/c10_allocator.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/version.h>

#include <cstdlib>
#include <cstring>
#include <new>

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
#define MME_TORCH_ALLOCATE_IS_MUTABLE 1
#endif

namespace mme::loader {
namespace {

/// Lies before each block; as wide as libtorch's alignment, so that the block keeps it.
struct alignas(64) Header {
  std::size_t charged;
  MemoryAccount* account;
};
static_assert(sizeof(Header) == 64);

Header& header_of(void* block) noexcept {
  return static_cast<Header*>(block)[-1];
}

void free_block(void* block) noexcept {
  if (block == nullptr) return;
  Header& header = header_of(block);
  MemoryAccount* account = header.account;
  const std::size_t charged = header.charged;
  std::free(&header);
  if (account != nullptr) account->release(charged, BlockKind::tensor);
}

void free_block_of_c10(void* block) {
  free_block(block);
}

void* obtain(std::size_t size) {
  std::size_t whole = 0;
  // c10::Error and not std::bad_alloc: the interpreter passes on the text of the former. Nobody decides by either.
  TORCH_CHECK(!__builtin_add_overflow(size, sizeof(Header), &whole), "a tensor's size is not a number of bytes");
  MemoryAccount* account = current_account();
  TORCH_CHECK(account == nullptr || account->charge(whole, BlockKind::tensor), "no room in the memory budget for ",
              size, " bytes");
  void* base = nullptr;
  if (posix_memalign(&base, alignof(Header), whole) != 0) {
    if (account != nullptr) {
      account->mark_refused();
      account->release(whole, BlockKind::tensor);
    }
    TORCH_CHECK(false, "the system has no memory for ", size, " bytes");
  }
  auto* header = new (base) Header{whole, account};
  return header + 1;
}

/// oneDNN asserts that the context of a DataPtr is its data, hence the header in front.
class CountingAllocator final : public c10::Allocator {
 public:
#ifdef MME_TORCH_ALLOCATE_IS_MUTABLE
  c10::DataPtr allocate(std::size_t size) override {
    return make(size);
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }
#else
  c10::DataPtr allocate(std::size_t size) const override {
    return make(size);
  }
#endif
  c10::DeleterFnPtr raw_deleter() const override {
    return &free_block_of_c10;
  }

 private:
  static c10::DataPtr make(std::size_t size) {
    void* block = size == 0 ? nullptr : obtain(size);
    return {block, block, &free_block_of_c10, c10::Device(c10::DeviceType::CPU)};
  }
};

constexpr c10::DebugInfoKind carrier_kind = c10::DebugInfoKind::INFERENCE_CONTEXT;

}  // namespace

/// Travels with libtorch's thread-local state to the threads that run forked tasks, and holds the account for them.
struct MeteredScope::Carrier final : c10::DebugInfoBase {
  explicit Carrier(MemoryAccount& a) : account(a) { account.hold(); }
  ~Carrier() override { account.drop(); }
  MemoryAccount& account;
};

MemoryAccount* MeteredScope::carried() noexcept {
  const auto* carrier = static_cast<Carrier*>(c10::ThreadLocalDebugInfo::get(carrier_kind));
  return carrier != nullptr ? &carrier->account : nullptr;
}

void install_tensor_allocator() {
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator);
  set_account_fallback(&MeteredScope::carried);
}

MemoryAccount* account_of(const c10::DataPtr& data) noexcept {
  if (data.get_deleter() != &free_block_of_c10 || data.get_context() == nullptr) return nullptr;
  return header_of(data.get_context()).account;
}

std::optional<std::size_t> block_size(const c10::DataPtr& data) noexcept {
  if (data.get_deleter() != &free_block_of_c10 || data.get_context() == nullptr) return std::nullopt;
  return header_of(data.get_context()).charged - sizeof(Header);
}

void hand_over(const c10::DataPtr& data, MemoryAccount& to) noexcept {
  Header& header = header_of(data.get_context());
  header.account->hand_over(header.charged, BlockKind::tensor, to);
  header.account = &to;
}

MeteredScope::MeteredScope(MemoryAccount& account)
    : carrier_([&account] {
        const AccountScope nobody(nullptr);
        return std::make_shared<Carrier>(account);
      }()),
      forked_(carrier_kind, carrier_),
      scope_(&account) {}

MeteredScope::~MeteredScope() = default;

}  // namespace mme::loader
