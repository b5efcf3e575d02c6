// The shell: lock, ask the ledger, unlock, do.
// One path for everything: decide() -> collect() -> perform().
#include "cache/shell.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace mme::cache {
namespace {

/// Loaders may throw; the cache does not let it pass, and what was thrown is not for strangers.
template <class T, class Work>
Result<T> guarded(Work work) {
  try {
    return work();
  } catch (...) {
    return loader::fail(ErrorCode::internal, "the loader failed unexpectedly");
  }
}

}  // namespace

Shell::Shell(CacheOptions options, const loader::ModelLoader& loader, Executor loads, Executor reaper,
             Observer& observer, std::function<TimePoint()> now)
    : growth_wait_(options.growth_wait),
      after_destroy_(options.after_destroy),
      loader_(loader),
      loads_(std::move(loads)),
      reaper_(std::move(reaper)),
      observer_(observer),
      now_(std::move(now)),
      ledger_(std::move(options)) {}

template <class Decide>
void Shell::decide(Decide&& decide) {
  Decisions decisions;
  Answers answers;
  {
    const std::lock_guard lock(mutex_);
    decide(now_(), decisions);
    answers = collect(decisions);
  }
  perform(std::move(decisions), std::move(answers));
}

void Shell::take(Ticket ticket, std::optional<LeaseTerms> terms, std::optional<Error> error, Answers& answers) {
  if (auto found = pending_.extract(ticket)) {
    answers.push_back({std::move(found.mapped()), std::move(terms), std::move(error)});
  }
}

Shell::Answers Shell::collect(const Decisions& decisions) {
  Answers answers;
  for (const auto& [ticket, terms] : decisions.grants) {
    take(ticket, terms, std::nullopt, answers);
  }
  for (const auto& [ticket, error] : decisions.failures) {
    take(ticket, std::nullopt, error, answers);
  }
  for (const Ticket ticket : decisions.done) {
    take(ticket, std::nullopt, std::nullopt, answers);
  }
  return answers;
}

void Shell::perform(Decisions&& decisions, Answers&& answers) {
  // First: once the work below is given out, others may have it done and answered before anything more is said here.
  for (const Event& event : decisions.events) {
    tell(event);
  }
  for (auto& [entry, model] : decisions.destructions) {
    destroy(entry, std::move(model));
  }
  for (const Decisions::Task& task : decisions.estimates) {
    loads_([self = shared_from_this(), task] { self->estimate(task.entry, task.spec); });
  }
  for (const Decisions::Task& task : decisions.reads) {
    loads_([self = shared_from_this(), task] { self->read(task); });
  }
  for (std::stop_source& unwanted : decisions.stops) {
    unwanted.request_stop();
  }
  for (Answered& answered : answers) {
    answer(std::move(answered));
  }
}

void Shell::tell(const Event& event) {
  struct Teller {
    Observer& observer;
    void operator()(const LoadStarted& it) const { observer.load_started(it.spec, it.estimated); }
    void operator()(const LoadEnded& it) const {
      observer.load_ended(it.spec, it.bytes, it.took, it.error ? &*it.error : nullptr);
    }
    void operator()(const Evicted& it) const { observer.evicted(it.spec, it.bytes, it.reason, it.cause); }
    void operator()(const Refused& it) const { observer.refused(it.spec, it.error); }
    void operator()(const Quarantined& it) const { observer.quarantined(it.spec, it.work); }
    void operator()(const Recovered& it) const { observer.recovered(it.spec, it.work); }
    void operator()(const SizeDrifted& it) const { observer.size_drifted(it.spec, it.learned, it.measured); }
    void operator()(const ModelGrew& it) const { observer.model_grew(it.spec, it.before, it.now); }
  };
  std::visit(Teller{observer_}, event);
}

void Shell::answer(Answered&& answered) {
  Pending& pending = answered.pending;
  if (pending.done) {
    pending.done(answered.error ? Result<void>(std::move(*answered.error)) : Result<void>());
  } else if (answered.error) {
    pending.acquired(std::move(*answered.error));
  } else {
    pending.hold->start(*answered.terms);
    pending.acquired(Lease(std::move(pending.hold)));
  }
}

// --- work on other threads

void Shell::estimate(EntryId id, const ModelSpec& spec) {
  auto estimate = guarded<loader::Estimate>([&] { return loader_.estimate(spec); });
  decide([&](TimePoint now, Decisions& out) { ledger_.estimated(id, std::move(estimate), now, out); });
}

void Shell::read(const Decisions::Task& task) {
  const EntryId id = task.entry;
  loader::LoadContext context;
  context.stop = task.stop;
  context.call_waits = task.call_waits;
  context.memory = std::make_shared<LoadGrant>(shared_from_this(), id);
  context.granted_bytes = task.granted_bytes;
  context.held_segments = task.held_segments;
  auto model = guarded<std::unique_ptr<loader::Model>>([&] { return loader_.load(task.spec, context); });
  Result<Ledger::Loaded> loaded = loader::fail(ErrorCode::internal, "the loader returned no model");
  if (!model) {
    loaded = model.error();
  } else if (*model) {
    loaded = guarded<Ledger::Loaded>([&]() -> Result<Ledger::Loaded> {
      return Ledger::Loaded{nullptr, (*model)->footprint(), (*model)->stateless(), context.peak_bytes};
    });
  }
  if (loaded) {
    loaded->model = std::move(*model);
  } else if (model && *model) {  // it cannot say what it holds: it dies where models die, before its bytes are free
    reaper_([self = shared_from_this(), id, doomed = std::shared_ptr<loader::Model>(std::move(*model)),
             error = loaded.error()]() mutable {
      doomed.reset();
      self->after_destroy(SIZE_MAX);
      self->decide([&](TimePoint now, Decisions& out) { self->ledger_.loaded(id, std::move(error), now, out); });
    });
    return;
  } else {
    after_destroy(SIZE_MAX);
  }
  decide([&](TimePoint now, Decisions& out) { ledger_.loaded(id, std::move(loaded), now, out); });
  memory_back_.notify_all();
  context.memory.reset();
  if (context.afterwards) {
    context.afterwards();
  }
}

void Shell::destroy(EntryId id, std::unique_ptr<loader::Model> model) {
  reaper_([self = shared_from_this(), id, doomed = std::shared_ptr<loader::Model>(std::move(model))]() mutable {
    const loader::Footprint held = doomed->footprint();
    doomed.reset();
    self->after_destroy(held.private_bytes + held.code_bytes);
    self->decide([&](TimePoint now, Decisions& out) { self->ledger_.memory_back(id, now, out); });
    self->memory_back_.notify_all();
  });
}

void Shell::after_destroy(std::size_t freed) const {
  if (after_destroy_) {
    after_destroy_(freed);
  }
}

// --- callers

Ticket Shell::acquire(const ModelSpec& spec, const CallRequest& request, ModelCache::AcquireHandler handler) {
  auto hold = std::make_unique<CallHold>(shared_from_this());
  Decisions decisions;
  Answers answers;
  Ledger::Answer answer;
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    answer = ledger_.acquire(spec, request, hold->account(), now_(), decisions);
    if (answer.ticket != 0) {
      pending_[answer.ticket] = {std::move(hold), std::move(handler), {}};
      answers = collect(decisions);
      waits = pending_.contains(answer.ticket);
    } else {
      answers = collect(decisions);
    }
  }
  if (!answer.error) {
    observer_.found(spec, answer.found);
  }
  perform(std::move(decisions), std::move(answers));
  if (answer.error) {
    handler(std::move(*answer.error));
  } else if (answer.terms) {
    hold->start(*answer.terms);
    handler(Lease(std::move(hold)));
  }
  return waits ? answer.ticket : 0;
}

Ticket Shell::load(const ModelSpec& spec, Deadline deadline, ModelCache::DoneHandler handler) {
  Ledger::Answer answer;
  decide([&](TimePoint now, Decisions& out) {
    answer = ledger_.load(spec, deadline, now, out);
    if (answer.ticket != 0) {
      pending_[answer.ticket] = {nullptr, {}, handler};
    }
  });
  if (answer.error) {
    handler(std::move(*answer.error));
    return 0;
  }
  return answer.ticket;
}

void Shell::unload(const std::string& name, const std::optional<std::string>& version, Deadline deadline,
                   ModelCache::DoneHandler handler) {
  Ledger::Answer answer;
  decide([&](TimePoint now, Decisions& out) {
    answer = ledger_.unload(name, version, deadline, now, out);
    if (answer.ticket != 0) {
      pending_[answer.ticket] = {nullptr, {}, handler};
    }
  });
  if (answer.error) {
    handler(std::move(*answer.error));
  }
}

bool Shell::leave(Ticket ticket) {
  bool left = false;
  Pending gone;  // outlives the lock: what the handler holds is not ours to destroy under it
  decide([&](TimePoint now, Decisions& out) {
    left = ledger_.leave(ticket, now, out);
    if (left) {
      if (auto found = pending_.extract(ticket)) {
        gone = std::move(found.mapped());
      }
    }
  });
  return left;
}

Result<void> Shell::set_budget(std::size_t bytes) {
  Result<void> result;
  decide([&](TimePoint now, Decisions& out) { result = ledger_.set_budget(bytes, now, out); });
  return result;
}

Result<void> Shell::set_limits(const CacheLimits& limits, const std::set<std::string>& pinned) {
  Result<void> result;
  decide([&](TimePoint now, Decisions& out) { result = ledger_.set_limits(limits, pinned, now, out); });
  return result;
}

std::shared_ptr<loader::MemoryGrant> Shell::claim_body(std::size_t bytes) {
  auto grant = std::make_shared<CallGrant>(shared_from_this());
  bool opened = false;
  decide([&](TimePoint now, Decisions& out) { opened = ledger_.open_body(grant->account(), bytes, now, out); });
  return opened ? grant : nullptr;
}

void Shell::tick() {
  decide([&](TimePoint now, Decisions& out) { ledger_.tick(now, out); });
}

void Shell::stop() {
  decide([&](TimePoint now, Decisions& out) { ledger_.stop(now, out); });
}

void Shell::close() {
  decide([&](TimePoint now, Decisions& out) { ledger_.close(now, out); });
}

// --- views

MemoryUse Shell::used() const {
  const std::lock_guard lock(mutex_);
  return ledger_.used();
}

CacheStatus Shell::status() const {
  const std::lock_guard lock(mutex_);
  return ledger_.status(now_());
}

std::optional<Error> Shell::broken(const loader::ArtifactId& artifact) const {
  const std::lock_guard lock(mutex_);
  return ledger_.broken(artifact, now_());
}

double Shell::oldest_waiting_load_seconds() const {
  const std::lock_guard lock(mutex_);
  return ledger_.oldest_waiting_load_seconds(now_());
}

void Shell::check() const {
  const std::lock_guard lock(mutex_);
  ledger_.check();
}

bool Shell::with_model(const std::string& name, const std::optional<std::string>& version,
                       const std::function<void(const loader::Model&, const EntryStatus&)>& visit) {
  Entry* entry = nullptr;
  EntryStatus status;
  {
    const std::lock_guard lock(mutex_);
    entry = ledger_.pin(name, version);
    if (entry == nullptr) {
      return false;
    }
    status = ledger_.describe(*entry, now_());
  }
  struct Unpin {
    Shell& shell;
    Entry& entry;
    ~Unpin() {
      shell.decide([&](TimePoint now, Decisions& out) { shell.ledger_.unpin(entry, now, out); });
    }
  } const unpin{*this, *entry};
  visit(*status.model, status);
  return true;
}

// --- the ends of grants and leases

void Shell::close(GrantAccount& account) noexcept {
  decide([&](TimePoint now, Decisions& out) { ledger_.close(account, now, out); });
}

void Shell::end_lease(const LeaseTerms& terms, GrantAccount& account, bool last) noexcept {
  const bool usable = terms.entry->model->usable();
  decide([&](TimePoint now, Decisions& out) {
    ledger_.end_lease(terms, account, usable, now, out);
    if (last) {
      ledger_.close(account, now, out);
    }
  });
}

}  // namespace mme::cache
