// Compiled code that models of one architecture hold together: compiled for the first of them, gone with the last.
// Holds and finds units; what is in one is libtorch's business, and the model reader's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "loader/torch/memory_account.hpp"
#include "loader/torch/write_report.hpp"

namespace torch::jit {
struct CompilationUnit;
}

namespace mme::loader {

class CodePool;

/// One compiled text. Models that hold it differ only in what their attributes hold; what they run is common to them:
/// graphs, the plans that first calls leave in them, constants. Nobody may write to those constants.
/// Members may be called from any thread; `compiled` and `segment` are set before anybody else sees it.
class CodeUnit {
 public:
  CodeUnit(std::shared_ptr<CodePool> pool, std::string text);
  ~CodeUnit();
  CodeUnit(const CodeUnit&) = delete;
  CodeUnit& operator=(const CodeUnit&) = delete;

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

  std::shared_ptr<torch::jit::CompilationUnit> compiled;
  Segment segment;  ///< as the cache charges it

  /// What may be written to depends on the code and on the attributes that decide which of it runs, told by `shape`.
  [[nodiscard]] std::optional<WriteReport> report(const std::string& shape) const;
  void remember(const std::string& shape, const WriteReport& report);

  /// The credit of the code: what calls left in it and what went since.
  [[nodiscard]] const std::shared_ptr<KeptBytes>& kept() const noexcept { return kept_; }
  /// A call wrote to what the report said that none does.
  void mistrust();
  /// Whether a call has run: until then what a call leaves behind are plans, also when its model keeps state.
  [[nodiscard]] bool warm() const noexcept { return warm_.load(std::memory_order_relaxed); }
  void set_warm() noexcept { warm_.store(true, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t most_reports = 16;

  const std::shared_ptr<CodePool> pool_;
  const std::string text_;
  std::shared_ptr<KeptBytes> kept_;
  std::atomic<bool> warm_{false};
  mutable std::mutex mutex_;  // guards reports_
  std::map<std::string, WriteReport> reports_;
  std::set<std::uint64_t> fingerprints_;  // guarded by the pool
  friend class CodePool;
};

/// Members may be called from any thread. Lives as long as its units.
class CodePool {
 public:
  /// The right to compile one text; others that want it wait for the end of it.
  class Turn {
   public:
    Turn(CodePool& pool, std::string_view text) : pool_(&pool), text_(text) {}
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    CodePool* pool_;
    std::string text_;
  };
  struct Found {
    std::shared_ptr<CodeUnit> unit;  ///< null: compile it
    std::unique_ptr<Turn> turn;      ///< to compile and then publish(); null: for yourself alone
  };

  /// The unit of that text. While another load compiles it, waits for that, a few seconds at most.
  [[nodiscard]] Found find(const std::string& text, const std::stop_token& stop);
  /// A segment key that no other code has or had.
  [[nodiscard]] std::string new_key();
  /// Of code whose report was wrong once, none is believed again.
  [[nodiscard]] bool mistrusts(const std::string& text) const;
  /// From now on others find it.
  void publish(const std::shared_ptr<CodeUnit>& unit);

  /// The code of an archive whose directory has that fingerprint, if it is in memory: a guess, for estimates.
  [[nodiscard]] std::optional<Segment> guess(std::uint64_t fingerprint) const;
  void remember(std::uint64_t fingerprint, const std::shared_ptr<CodeUnit>& unit);

 private:
  friend class CodeUnit;
  static constexpr std::size_t most_mistrusted = 256;

  void forget(const CodeUnit& unit) noexcept;
  void end_turn(const std::string& text) noexcept;
  [[nodiscard]] std::shared_ptr<CodeUnit> alive(std::string_view text) const;

  mutable std::mutex mutex_;
  std::condition_variable turn_ended_;
  std::unordered_map<std::string_view, std::pair<const CodeUnit*, std::weak_ptr<CodeUnit>>> units_;  // keys lie in them
  std::set<std::string, std::less<>> compiling_;
  std::unordered_map<std::uint64_t, CodeUnit*> guesses_;  // units leave before they die
  std::set<std::string> mistrusted_;
  std::uint64_t made_ = 0;
};

}  // namespace mme::loader
