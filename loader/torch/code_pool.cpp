#include "loader/torch/code_pool.hpp"

#include <chrono>
#include <utility>

namespace mme::loader {
namespace {

using namespace std::chrono_literals;

/// Compiling takes less; whoever waits longer compiles for itself.
constexpr auto longest_wait = 5s;
constexpr auto look_for_stop = 20ms;

}  // namespace

// The credit holds no room: an account that paid for it would wait for itself.
CodeUnit::CodeUnit(std::shared_ptr<CodePool> pool, std::string text)
    : pool_(std::move(pool)), text_(std::move(text)), kept_([] {
        const AccountScope nobody(nullptr);
        return std::make_shared<KeptBytes>();
      }()) {}

CodeUnit::~CodeUnit() {
  pool_->forget(*this);
}

std::optional<WriteReport> CodeUnit::report(const std::string& shape) const {
  const std::lock_guard lock(mutex_);
  const auto found = reports_.find(shape);
  return found == reports_.end() ? std::nullopt : std::optional(found->second);
}

void CodeUnit::remember(const std::string& shape, const WriteReport& report) {
  const std::lock_guard lock(mutex_);
  if (reports_.size() < most_reports) reports_.emplace(shape, report);
}

void CodeUnit::mistrust() {
  const std::lock_guard lock(pool_->mutex_);
  auto& mistrusted = pool_->mistrusted_;
  if (mistrusted.size() >= CodePool::most_mistrusted) mistrusted.clear();
  mistrusted.insert(text_);
}

CodePool::Turn::~Turn() {
  pool_->end_turn(text_);
}

std::shared_ptr<CodeUnit> CodePool::alive(std::string_view text) const {
  const auto found = units_.find(text);
  return found == units_.end() ? nullptr : found->second.second.lock();
}

CodePool::Found CodePool::find(const std::string& text, const std::stop_token& stop) {
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  std::unique_lock lock(mutex_);
  for (;;) {
    // Its last holder may be this very variable: never let go of a unit under the lock.
    if (auto unit = alive(text)) return {std::move(unit), nullptr};
    if (!compiling_.contains(text)) {
      auto turn = std::make_unique<Turn>(*this, text);
      compiling_.insert(text);
      return {nullptr, std::move(turn)};
    }
    if (stop.stop_requested() || std::chrono::steady_clock::now() > until) return {};
    turn_ended_.wait_for(lock, look_for_stop);
  }
}

std::string CodePool::new_key() {
  const std::lock_guard lock(mutex_);
  return "code:" + std::to_string(++made_);
}

bool CodePool::mistrusts(const std::string& text) const {
  const std::lock_guard lock(mutex_);
  return mistrusted_.contains(text);
}

void CodePool::publish(const std::shared_ptr<CodeUnit>& unit) {
  const std::lock_guard lock(mutex_);
  units_.erase(unit->text());  // of one that is on its way out: its text goes with it
  units_.emplace(unit->text(), std::pair(unit.get(), std::weak_ptr(unit)));
}

void CodePool::end_turn(const std::string& text) noexcept {
  {
    const std::lock_guard lock(mutex_);
    compiling_.erase(text);
  }
  turn_ended_.notify_all();
}

void CodePool::forget(const CodeUnit& unit) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = units_.find(unit.text());
  if (found != units_.end() && found->second.first == &unit) units_.erase(found);
  for (const std::uint64_t fingerprint : unit.fingerprints_) {
    const auto guess = guesses_.find(fingerprint);
    if (guess != guesses_.end() && guess->second == &unit) guesses_.erase(guess);
  }
}

std::optional<Segment> CodePool::guess(std::uint64_t fingerprint) const {
  const std::lock_guard lock(mutex_);
  const auto found = guesses_.find(fingerprint);
  return found == guesses_.end() ? std::nullopt : std::optional(found->second->segment);
}

void CodePool::remember(std::uint64_t fingerprint, const std::shared_ptr<CodeUnit>& unit) {
  const std::lock_guard lock(mutex_);
  unit->fingerprints_.insert(fingerprint);
  guesses_[fingerprint] = unit.get();
}

}  // namespace mme::loader
