// The public face of the cache: every member is one call of the shell.
// Nothing happens here but the end: closing the shell when the cache goes.
#include "cache/model_cache.hpp"

#include <utility>

#include "cache/shell.hpp"

namespace mme::cache {

ModelCache::ModelCache(CacheOptions options, const loader::ModelLoader& loader, Executor loads, Executor reaper,
                       Observer& observer, std::function<TimePoint()> now)
    : shell_(std::make_shared<Shell>(std::move(options), loader, std::move(loads), std::move(reaper), observer,
                                     std::move(now))) {}

ModelCache::~ModelCache() {
  shell_->close();
}

Ticket ModelCache::acquire(const ModelSpec& spec, const CallRequest& request, AcquireHandler handler) {
  return shell_->acquire(spec, request, std::move(handler));
}
Ticket ModelCache::load(const ModelSpec& spec, Deadline deadline, DoneHandler handler) {
  return shell_->load(spec, deadline, std::move(handler));
}
bool ModelCache::leave(Ticket ticket) {
  return shell_->leave(ticket);
}
void ModelCache::unload(const std::string& name, const std::optional<std::string>& version, Deadline deadline,
                        DoneHandler handler) {
  shell_->unload(name, version, deadline, std::move(handler));
}
Result<void> ModelCache::set_budget(std::size_t bytes) {
  return shell_->set_budget(bytes);
}
Result<void> ModelCache::set_limits(const CacheLimits& limits, const std::set<std::string>& pinned) {
  return shell_->set_limits(limits, pinned);
}
std::shared_ptr<loader::MemoryGrant> ModelCache::claim_body(std::size_t bytes) {
  return shell_->claim_body(bytes);
}
void ModelCache::tick() {
  shell_->tick();
}
void ModelCache::stop() {
  shell_->stop();
}
void ModelCache::close() {
  shell_->close();
}
void ModelCache::check() const {
  shell_->check();
}
MemoryUse ModelCache::used() const {
  return shell_->used();
}
std::optional<Error> ModelCache::broken(const loader::ArtifactId& artifact) const {
  return shell_->broken(artifact);
}
double ModelCache::oldest_waiting_load_seconds() const {
  return shell_->oldest_waiting_load_seconds();
}
LearnedTable ModelCache::learned() const {
  return shell_->learned();
}
std::uint64_t ModelCache::learned_changes() const {
  return shell_->learned_changes();
}
CacheStatus ModelCache::status() const {
  return shell_->status();
}
bool ModelCache::with_model(const std::string& name, const std::optional<std::string>& version,
                            const std::function<void(const loader::Model&, const EntryStatus&)>& visit) const {
  return shell_->with_model(name, version, visit);
}

}  // namespace mme::cache
