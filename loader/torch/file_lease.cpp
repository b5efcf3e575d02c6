#include "loader/torch/file_lease.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "loader/torch/memory_account.hpp"

namespace mme::loader {
namespace {

std::size_t most_leases() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<std::size_t>(limit.rlim_cur) / 2;
}

}  // namespace

/// One thread in the process, from the first lease on; it lives as long as the process, for a notice may always come.
class LeaseWatcher {
 public:
  static LeaseWatcher& instance() {
    static auto* const watcher = new LeaseWatcher;
    return *watcher;
  }

  bool add(FileLease& lease) {
    const std::lock_guard lock(mutex_);
    if (leases_.size() >= most_) return false;
    // Before the lease: by default the notice goes to whoever takes it, and ends a process that does not expect it.
    const f_owner_ex owner{F_OWNER_TID, thread_.load()};
    if (fcntl(lease.descriptor_, F_SETOWN_EX, &owner) != 0) return false;
    if (fcntl(lease.descriptor_, F_SETLEASE, F_RDLCK) != 0) return false;
    try {
      leases_.push_back(&lease);
    } catch (...) {
      fcntl(lease.descriptor_, F_SETLEASE, F_UNLCK);
      throw;
    }
    return true;
  }

  void remove(FileLease& lease) noexcept {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return serving_ != &lease; });
    std::erase(leases_, &lease);
  }

  std::size_t held() {
    const std::lock_guard lock(mutex_);
    return leases_.size();
  }

 private:
  LeaseWatcher() : most_(most_leases()) {
    std::thread([this] { watch(); }).detach();
    thread_.wait(0);
  }

  /// The notice is sent to this very thread, which waits for it: no handler, and no other thread's call is interrupted.
  [[noreturn]] void watch() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    sigset_t notice;
    sigemptyset(&notice);
    sigaddset(&notice, SIGIO);
    thread_.store(gettid());
    thread_.notify_all();
    for (;;) {
      sigwaitinfo(&notice, nullptr);
      while (FileLease* lease = next_broken()) serve(*lease);
    }
  }

  /// A lease that a writer waits for says that it is to become none. Notices can merge, so all are asked.
  FileLease* next_broken() {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(leases_, [](const FileLease* lease) {
      return !lease->broken() && fcntl(lease->descriptor_, F_GETLEASE) == F_UNLCK;
    });
    serving_ = found == leases_.end() ? nullptr : *found;
    return serving_;
  }

  void serve(FileLease& lease) {
    lease.on_break_();
    fcntl(lease.descriptor_, F_SETLEASE, F_UNLCK);
    {
      const std::lock_guard lock(mutex_);
      lease.broken_.store(true, std::memory_order_release);
      serving_ = nullptr;
    }
    idle_.notify_all();
  }

  const std::size_t most_;
  std::atomic<pid_t> thread_{0};
  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<FileLease*> leases_;
  FileLease* serving_ = nullptr;
};

FileLease::FileLease(int descriptor, std::function<void()> on_break) noexcept
    : descriptor_(descriptor), on_break_(std::move(on_break)) {}

std::unique_ptr<FileLease> FileLease::take(int descriptor, std::function<void()> on_break) {
  const AccountScope nobody(nullptr);  // the watcher and its list outlive the load
  std::unique_ptr<FileLease> lease(new FileLease(descriptor, std::move(on_break)));
  return LeaseWatcher::instance().add(*lease) ? std::move(lease) : nullptr;
}

FileLease::~FileLease() {
  LeaseWatcher::instance().remove(*this);
  if (!broken()) fcntl(descriptor_, F_SETLEASE, F_UNLCK);
}

std::size_t FileLease::held() {
  return LeaseWatcher::instance().held();
}

}  // namespace mme::loader
