// Preloaded into the server under test: while a file exists, reading model files fails as a broken disk does.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

bool broken(int descriptor) {
  const char* mark = std::getenv("MME_TEST_DISK_BROKEN");
  if (mark == nullptr || access(mark, F_OK) != 0) return false;
  char path[4096];
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), path, sizeof path);
  return size > 3 && std::memcmp(path + size - 3, ".pt", 3) == 0;
}

template <class Real, class... Arguments>
ssize_t fail_or(const char* name, int descriptor, Arguments... arguments) {
  static const auto real = reinterpret_cast<Real*>(dlsym(RTLD_NEXT, name));
  if (broken(descriptor)) {
    errno = EIO;
    return -1;
  }
  return real(descriptor, arguments...);
}

}  // namespace

extern "C" ssize_t pread(int descriptor, void* into, size_t size, off_t offset) {
  return fail_or<ssize_t(int, void*, size_t, off_t)>("pread", descriptor, into, size, offset);
}
extern "C" ssize_t pread64(int descriptor, void* into, size_t size, off64_t offset) {
  return fail_or<ssize_t(int, void*, size_t, off64_t)>("pread64", descriptor, into, size, offset);
}
