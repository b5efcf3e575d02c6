// What the ledger decided under the lock and the shell does after it.
// Plain values; doing them is the shell's part.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "cache/entry.hpp"

namespace mme::cache {

/// The terms of a lease that was given: what its end must give back.
struct LeaseTerms {
  Entry* entry = nullptr;  ///< stays while the lease does
  std::size_t granted = 0;
  std::size_t input_bytes = 0;
  bool unknown_peak = false;
  CacheResult result = CacheResult::hit;
  std::chrono::nanoseconds load{0};
  std::chrono::nanoseconds queue{0};
};

struct LoadStarted {
  ModelSpec spec;
  std::size_t estimated = 0;
};
struct LoadEnded {
  ModelSpec spec;
  std::size_t bytes = 0;
  std::chrono::nanoseconds took{0};
  std::optional<Error> error;
};
struct Evicted {
  ModelSpec spec;
  std::size_t bytes = 0;
  EvictionReason reason = EvictionReason::room;
  std::string cause;
};
struct Refused {
  ModelSpec spec;
  Error error;
};
struct Quarantined {
  ModelSpec spec;
  StuckWork work = StuckWork::call;
};
struct Recovered {
  ModelSpec spec;
  StuckWork work = StuckWork::call;
};
/// A load took far more or less than the same content did before.
struct SizeDrifted {
  ModelSpec spec;
  std::size_t learned = 0;
  std::size_t measured = 0;
};
/// What a name stands for now takes far more than what it stood for before.
struct ModelGrew {
  ModelSpec spec;
  std::size_t before = 0;
  std::size_t now = 0;
};
using Event = std::variant<LoadStarted, LoadEnded, Evicted, Refused, Quarantined, Recovered, SizeDrifted, ModelGrew>;

struct Decisions {
  struct Grant {
    Ticket ticket;
    LeaseTerms terms;
  };
  struct Failure {
    Ticket ticket;
    Error error;
  };
  struct Task {
    EntryId entry;
    ModelSpec spec;
    std::stop_token stop;     ///< reads only
    bool call_waits = false;  ///< reads only, like what follows
    std::size_t granted_bytes = 0;
    std::vector<loader::Segment> held_segments = {};
  };
  struct Destruction {
    EntryId entry;
    std::unique_ptr<loader::Model> model;
  };
  std::vector<Grant> grants;
  std::vector<Failure> failures;
  std::vector<Ticket> done;  ///< loads and unloads that succeeded
  std::vector<Task> estimates;
  std::vector<Task> reads;
  std::vector<std::stop_source> stops;  ///< of reads that nobody wants any more
  std::vector<Destruction> destructions;
  std::vector<Event> events;
};

}  // namespace mme::cache
