// Preloaded into the server under test: the time of day is what a file says it is off by, in seconds. The steady clock
// is left alone, as a real change of the date leaves it alone.
#include <dlfcn.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>

namespace {

long offset() {
  const char* path = std::getenv("MME_TEST_CLOCK_OFFSET");
  long seconds = 0;
  if (path == nullptr) return 0;
  if (std::FILE* file = std::fopen(path, "r")) {
    if (std::fscanf(file, "%ld", &seconds) != 1) seconds = 0;
    std::fclose(file);
  }
  return seconds;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  static const auto real = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME && result == 0) time->tv_sec += offset();
  return result;
}
