#include "loader/repository/settling.hpp"

namespace mme::loader {

bool SettlingWatch::is_settling(const disk::File& file) {
  // The usual case, decided without the lock: nobody wrote to it lately.
  if (!is_young(file.id.mtime_ns)) return false;
  return changed_since_last_look(file) || !disk::ends_as_zip(file.id.path);
}

// A time in the future counts as old: a wrong clock must not keep a model away for ever.
bool SettlingWatch::is_young(std::int64_t mtime_ns) const {
  const auto age = now_().time_since_epoch() - std::chrono::nanoseconds(mtime_ns);
  return age < kYoung && age > -kYoung;
}

bool SettlingWatch::changed_since_last_look(const disk::File& file) {
  const std::lock_guard lock(mutex_);
  forget_old_ones();
  const Look now{file.id.inode, file.birth_ns, file.id.size, file.id.mtime_ns, false};
  const auto [found, is_new] = looks_.try_emplace(file.id.path, now);
  Look& look = found->second;
  if (is_new) return false;
  if (look.inode != now.inode || look.birth_ns != now.birth_ns) {
    look = now;
  } else if (look.size != now.size || look.mtime_ns != now.mtime_ns) {
    look = now;
    look.changed = true;
  }
  return look.changed;
}

void SettlingWatch::forget_old_ones() {
  std::erase_if(looks_, [this](const auto& entry) { return !is_young(entry.second.mtime_ns); });
}

}  // namespace mme::loader
