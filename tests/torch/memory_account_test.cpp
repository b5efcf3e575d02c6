// Who pays for which block, when a block is freed late or elsewhere, and what a grant holds at each step.
#include "loader/torch/memory_account.hpp"

#include <array>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/torch/counting_grant.hpp"

namespace mme::loader {
namespace {

using test::CountingGrant;

constexpr std::size_t step = MemoryAccount::default_step;

MemoryAccount::Handle open(const std::shared_ptr<CountingGrant>& grant, std::size_t granted = 0) {
  return MemoryAccount::open(grant, granted);
}

}  // namespace

TEST_CASE("an account asks for room in steps, and for the exact need when a step does not fit") {
  const auto grant = std::make_shared<CountingGrant>(0, step + 100);
  const auto account = open(grant);
  REQUIRE(account->charge(10, BlockKind::tensor));
  CHECK(grant->held() == step);
  REQUIRE(account->charge(step - 10, BlockKind::tensor));
  CHECK(grant->grows() == 1);
  REQUIRE(account->charge(100, BlockKind::tensor));
  CHECK(grant->held() == step + 100);
  CHECK_FALSE(account->charge(1, BlockKind::tensor));
  CHECK(account->refused());
  CHECK(account->bytes().tensors == step + 100);
  CHECK(account->peak() == step + 100);
  account->release(step + 100, BlockKind::tensor);
  CHECK(account->bytes().tensors == 0);
  account->close_call(std::make_shared<KeptBytes>());
  CHECK(grant->held() == 0);
}

TEST_CASE("what was granted at the start is used first and given back at the end") {
  const auto grant = std::make_shared<CountingGrant>(1000);
  const auto account = open(grant, 1000);
  REQUIRE(account->charge(1000, BlockKind::tensor));
  CHECK(grant->grows() == 0);
  account->release(1000, BlockKind::tensor);
  account->close_call(std::make_shared<KeptBytes>());
  CHECK(grant->held() == 0);
  CHECK(grant->kept() == 0);
}

TEST_CASE("what a call leaves behind is kept by its model, and nothing else") {
  const auto grant = std::make_shared<CountingGrant>();
  const auto account = open(grant);
  REQUIRE(account->charge(100, BlockKind::tensor));
  REQUIRE(account->charge(50, BlockKind::object));
  REQUIRE(account->charge(30, BlockKind::tensor));
  account->release(30, BlockKind::tensor);
  account->close_call(std::make_shared<KeptBytes>());
  CHECK(grant->kept() == 150);
  CHECK(grant->held() == 0);
  account->release(100, BlockKind::tensor);
  account->release(50, BlockKind::object);
  CHECK_FALSE(grant->overdrawn());
}

TEST_CASE("a model that replaces its state in every call is charged for one") {
  const auto kept = std::make_shared<KeptBytes>();
  std::size_t charged = 0;
  MemoryAccount::Handle before;
  for (int i = 0; i < 10; ++i) {
    const auto grant = std::make_shared<CountingGrant>();
    auto account = open(grant);
    REQUIRE(account->charge(100, BlockKind::tensor));
    if (before) before->release(100, BlockKind::tensor);
    account->close_call(kept);
    charged += grant->kept();
    before = std::move(account);
  }
  CHECK(charged == 100);
  before->release(100, BlockKind::tensor);
}

TEST_CASE("an account lives until its last block is freed, on whichever thread") {
  const std::size_t before = MemoryAccount::live();
  const auto grant = std::make_shared<CountingGrant>();
  auto account = open(grant);
  MemoryAccount* raw = account.get();
  REQUIRE(raw->charge(10, BlockKind::tensor));
  account->close_call(std::make_shared<KeptBytes>());
  account.reset();
  CHECK(MemoryAccount::live() == before + 1);
  std::thread([raw] { raw->release(10, BlockKind::tensor); }).join();
  CHECK(MemoryAccount::live() == before);
}

TEST_CASE("outputs hold exactly their bytes of the grant, and the grant, until they are freed") {
  auto grant = std::make_shared<CountingGrant>(1000);
  const std::weak_ptr<CountingGrant> watch = grant;
  auto call = open(grant, 1000);
  auto outputs = MemoryAccount::open_for_outputs(grant);
  MemoryAccount* raw = outputs.get();
  REQUIRE(call->charge(300, BlockKind::tensor));
  call->hand_over(300, BlockKind::tensor, *outputs);
  CHECK(call->bytes().tensors == 0);
  CHECK(outputs->bytes().tensors == 300);
  call->close_call(std::make_shared<KeptBytes>());
  CHECK(grant->held() == 300);
  call.reset();
  outputs.reset();
  grant.reset();
  REQUIRE_FALSE(watch.expired());
  CHECK(watch.lock()->held() == 300);
  raw->release(300, BlockKind::tensor);
  CHECK(watch.expired());
}

TEST_CASE("outputs give large blocks back as they are freed") {
  const auto grant = std::make_shared<CountingGrant>();
  const auto outputs = MemoryAccount::open_for_outputs(grant);
  REQUIRE(outputs->charge(step, BlockKind::object));
  REQUIRE(outputs->charge(10, BlockKind::object));
  const std::size_t all = grant->held();
  outputs->release(step, BlockKind::object);
  CHECK(grant->held() == all - step);
  outputs->release(10, BlockKind::object);
}

TEST_CASE("small objects pass a refusal up to an overdraft, because they are made where nothing may be thrown") {
  const auto grant = std::make_shared<CountingGrant>(0, 0);
  const auto account = open(grant);
  CHECK(account->charge(100, BlockKind::object));
  CHECK(account->refused());
  CHECK_FALSE(account->charge(100'000, BlockKind::object));
  CHECK_FALSE(account->charge(100, BlockKind::tensor));
  std::size_t passed = 1;
  while (account->charge(100, BlockKind::object)) ++passed;
  CHECK(passed * 100 <= std::size_t{1} << 20);
  CHECK(passed * 100 > (std::size_t{1} << 20) - 200);
  for (; passed > 0; --passed) account->release(100, BlockKind::object);
  account->close_call(std::make_shared<KeptBytes>());
  CHECK_FALSE(grant->overdrawn());
}

TEST_CASE("a block larger than any machine is refused and counts nowhere") {
  const auto account = open(std::make_shared<CountingGrant>());
  CHECK_FALSE(account->charge(SIZE_MAX / 2, BlockKind::tensor));
  CHECK(account->refused());
  CHECK(account->bytes().tensors == 0);
}

TEST_CASE("a grant is asked outside every account") {
  struct Asking final : MemoryGrant {
    bool grow(std::size_t) noexcept override { return seen = current_account() == nullptr, true; }
    void shrink(std::size_t) noexcept override { seen = seen && current_account() == nullptr; }
    void keep(std::size_t) noexcept override { seen = seen && current_account() == nullptr; }
    bool seen = false;
  };
  const auto grant = std::make_shared<Asking>();
  const auto account = MemoryAccount::open(grant, 0);
  const AccountScope scope(account.get());
  REQUIRE(account->charge(10, BlockKind::tensor));
  CHECK(grant->seen);
  account->close_call(std::make_shared<KeptBytes>());
  CHECK(grant->seen);
  account->release(10, BlockKind::tensor);
}

TEST_CASE("scopes nest and can be suspended") {
  const auto outer = MemoryAccount::open(nullptr, 0);
  const auto inner = MemoryAccount::open(nullptr, 0);
  CHECK(current_account() == nullptr);
  {
    const AccountScope a(outer.get());
    {
      const AccountScope b(inner.get());
      CHECK(current_account() == inner.get());
      const AccountScope c(nullptr);
      CHECK(current_account() == nullptr);
    }
    CHECK(current_account() == outer.get());
  }
  CHECK(current_account() == nullptr);
}

TEST_CASE("accounts freed from four threads at once all end") {
  const std::size_t before = MemoryAccount::live();
  for (int round = 0; round < 200; ++round) {
    auto account = open(std::make_shared<CountingGrant>());
    MemoryAccount* raw = account.get();
    for (int i = 0; i < 40; ++i) REQUIRE(raw->charge(10, BlockKind::object));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([raw] {
        for (int i = 0; i < 10; ++i) raw->release(10, BlockKind::object);
      });
    }
    account->close_call(std::make_shared<KeptBytes>());
    account.reset();
    for (auto& thread : threads) thread.join();
  }
  CHECK(MemoryAccount::live() == before);
}

#ifndef MME_SANITIZED
TEST_CASE("operator new charges the current account, whatever its form") {
  REQUIRE(objects_are_metered());
  const auto account = MemoryAccount::open(nullptr, 0);
  struct alignas(128) Wide {
    std::array<char, 128> bytes;
  };
  const AccountScope scope(account.get());
  void* plain = ::operator new(100);
  CHECK(account->bytes().objects == 116);
  void* array = ::operator new[](100, std::nothrow);
  auto* wide = new Wide;
  CHECK(reinterpret_cast<std::uintptr_t>(wide) % 128 == 0);
  CHECK(account->bytes().objects == 232 + 256);
  ::operator delete(plain);
  ::operator delete[](array, std::nothrow);
  delete wide;
  CHECK(account->bytes().objects == 0);
}

TEST_CASE("an object freed after its account's owner has gone is counted down") {
  const std::size_t before = MemoryAccount::live();
  auto account = MemoryAccount::open(std::make_shared<CountingGrant>(), 0);
  auto* text = [&] {
    const AccountScope scope(account.get());
    return new std::string(1000, 'x');
  }();
  account->close_call(std::make_shared<KeptBytes>());
  account.reset();
  CHECK(MemoryAccount::live() == before + 1);
  delete text;
  CHECK(MemoryAccount::live() == before);
}

TEST_CASE("a large object that is refused is a bad_alloc") {
  const auto account = MemoryAccount::open(std::make_shared<CountingGrant>(0, 0), 0);
  const AccountScope scope(account.get());
  CHECK_THROWS_AS(::operator new(1'000'000), std::bad_alloc);
  CHECK(::operator new(1'000'000, std::nothrow) == nullptr);
  CHECK(account->refused());
}
#endif

}  // namespace mme::loader
