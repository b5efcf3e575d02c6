// Who hears what the cache tells: several at once, and the one that replaces threads that are stuck.
// Decides nothing: what counts as stuck is the cache's rule (R15).
#pragma once

#include <array>
#include <mutex>

#include "cache/observer.hpp"
#include "server/inference/worker_pool.hpp"

namespace mme::server {

/// Keeps each pool at its size in threads that can work: one more for each thread that is written off, one less when
/// that thread comes back. The ledger bounds how many are written off, so the pools at most double.
/// Thread-safe; the pools must outlive the last event.
class StuckThreads final : public cache::Observer {
 public:
  StuckThreads(WorkerPool& compute, WorkerPool& loads) : pools_{{{&compute}, {&loads}}} {}

  void quarantined(const loader::ModelSpec& spec, cache::StuckWork work) override;
  void recovered(const loader::ModelSpec& spec, cache::StuckWork work) override;

 private:
  struct Pool {
    WorkerPool* pool = nullptr;
    int stuck = 0;     ///< may be below 0 for a moment: the end of stuck work can be told before its beginning
    int replaced = 0;  ///< threads added for them
  };
  void count(cache::StuckWork work, int change);

  std::mutex mutex_;
  std::array<Pool, 2> pools_;  ///< by cache::StuckWork
};

/// Tells each in turn.
template <std::size_t N>
class ObserverGroup final : public cache::Observer {
 public:
  template <class... Members>
  explicit ObserverGroup(Members&... members) : members_{&members...} {}

  void found(const loader::ModelSpec& spec, cache::CacheResult result) override {
    for (auto* each : members_) each->found(spec, result);
  }
  void load_started(const loader::ModelSpec& spec, std::size_t bytes) override {
    for (auto* each : members_) each->load_started(spec, bytes);
  }
  void load_ended(const loader::ModelSpec& spec, std::size_t bytes, std::chrono::nanoseconds took,
                  const loader::Error* error) override {
    for (auto* each : members_) each->load_ended(spec, bytes, took, error);
  }
  void evicted(const loader::ModelSpec& spec, std::size_t bytes, cache::EvictionReason reason,
               std::string_view cause) override {
    for (auto* each : members_) each->evicted(spec, bytes, reason, cause);
  }
  void refused(const loader::ModelSpec& spec, const loader::Error& error) override {
    for (auto* each : members_) each->refused(spec, error);
  }
  void quarantined(const loader::ModelSpec& spec, cache::StuckWork work) override {
    for (auto* each : members_) each->quarantined(spec, work);
  }
  void recovered(const loader::ModelSpec& spec, cache::StuckWork work) override {
    for (auto* each : members_) each->recovered(spec, work);
  }
  void size_drifted(const loader::ModelSpec& spec, std::size_t learned, std::size_t measured) override {
    for (auto* each : members_) each->size_drifted(spec, learned, measured);
  }
  void model_grew(const loader::ModelSpec& spec, std::size_t before, std::size_t now) override {
    for (auto* each : members_) each->model_grew(spec, before, now);
  }

 private:
  std::array<cache::Observer*, N> members_;
};

template <class... Members>
ObserverGroup(Members&...) -> ObserverGroup<sizeof...(Members)>;

}  // namespace mme::server
