#include "server/app/learned_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "cache/learned_text.hpp"
#include "server/app/log.hpp"

namespace mme::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBeside = "learned.tmp.";
/// A file beside is renamed within moments; an older one is what a process left that was killed.
constexpr auto kStrayAfter = std::chrono::minutes(10);

struct Descriptor {
  explicit Descriptor(int opened) : number(opened) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int number;
};

/// A new file in the folder that nobody else has; number and name. The number is -1 when there can be none.
std::pair<int, std::string> open_beside(const fs::path& folder) {
  std::string name = (folder / std::string(kBeside)).string() + "XXXXXX";
  const int number = ::mkostemp(name.data(), O_CLOEXEC);
  return {number, std::move(name)};
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// nullopt: no regular file, or more than may be read, or a failure.
std::optional<std::string> read_all(int descriptor) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < 0 ||
      static_cast<std::size_t>(facts.st_size) > cache::longest_learned_text) {
    return std::nullopt;
  }
  std::string text(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t length = 0;
  while (length < text.size()) {
    const ssize_t got = ::read(descriptor, text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  text.resize(length);
  return text;
}

}  // namespace

LearnedFile::LearnedFile(std::optional<fs::path> folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (folder_ && !folder_->has_filename()) folder_ = folder_->parent_path();               // a slash at the end
  if (!folder_ || !fs::is_directory(fs::absolute(*folder_).parent_path(), error)) return;  // it may come later
  fs::create_directory(*folder_, error);
  const auto [number, name] = open_beside(*folder_);
  const Descriptor beside(number);
  if (number < 0) {
    const std::string why = (error ? error : std::error_code(errno, std::generic_category())).message();
    log(LogLevel::info, "state_off",
        {{"path", std::string_view(folder_->native())},
         {"message", "the folder cannot be written, so what is learned of models is forgotten at the end"},
         {"why", std::string_view(why)}});
    folder_.reset();
    return;
  }
  ::unlink(name.c_str());
  remove_strays();
}

void LearnedFile::remove_strays() const {
  std::error_code error;
  for (fs::directory_iterator each(*folder_, error), end; !error && each != end; each.increment(error)) {
    std::error_code ignored;
    const auto written = fs::last_write_time(each->path(), ignored);
    const bool ours = each->path().filename().native().starts_with(kBeside);
    if (ours && !ignored && fs::file_time_type::clock::now() - written > kStrayAfter) fs::remove(each->path(), ignored);
  }
}

cache::LearnedTable LearnedFile::read() const {
  if (!folder_) return {};
  // A pipe in its place must not hold the start up.
  const Descriptor file(::open(path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.number < 0 && (errno == ENOENT || errno == ENOTDIR)) return {};
  if (file.number >= 0) {
    if (const auto text = read_all(file.number)) {
      if (auto table = cache::learned_from_text(*text)) return std::move(*table);
    }
  }
  const std::string name = path().string();
  log(LogLevel::warning, "state_discarded",
      {{"path", std::string_view(name)},
       {"message", "this is not what was once learned of models, or not all of it; it is begun anew"}});
  return {};
}

bool LearnedFile::write(const cache::LearnedTable& table) const {
  if (!folder_) return false;
  std::error_code error;
  fs::create_directory(*folder_, error);
  const auto [number, name] = open_beside(*folder_);
  const Descriptor file(number);
  if (number < 0) return false;
  // Everybody may read it: another process that serves the same models may belong to somebody else.
  const bool whole = ::fchmod(number, 0644) == 0 && write_all(number, cache::to_text(table));
  if (whole && ::rename(name.c_str(), path().c_str()) == 0) return true;
  ::unlink(name.c_str());
  return false;
}

LearnedKeeper::LearnedKeeper(const cache::ModelCache& cache, const LearnedFile& file) : cache_(cache), file_(file) {
  if (file_.on()) {
    writer_.emplace(
        WorkerPoolOptions{.name = "mme-state", .threads = 1, .stack_bytes = 1U << 20, .nice = 10, .enter_thread = {}});
  }
}

void LearnedKeeper::step(loader::TimePoint now) {
  const auto pause = failed_ ? kLongPause : kPause;
  if (!writer_ || writing_ || now - last_ < pause || cache_.learned_changes() == written_) return;
  last_ = now;
  writing_ = true;
  writer_->post([this] { write(); });
}

bool LearnedKeeper::finish(std::chrono::milliseconds patience) {
  if (!writer_) return true;
  writer_->post([this] { write(); });
  return writer_->finish(patience);
}

void LearnedKeeper::write() {
  const std::uint64_t changes = cache_.learned_changes();  // first: what comes in between is written once more
  if (changes != written_) {
    if (file_.write(cache_.learned())) {
      written_ = changes;
      failed_ = false;
    } else if (!failed_.exchange(true)) {
      log(LogLevel::warning, "state_not_written",
          {{"message", "what is learned of models cannot be written; it is tried again"}});
    }
  }
  writing_ = false;
}

}  // namespace mme::server
