// Preloaded into the server under test: holds as many MiB as a file says, which no meter sees.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

std::size_t wanted(const char* path) {
  std::size_t mebibytes = 0;
  if (std::FILE* file = std::fopen(path, "r")) {
    if (std::fscanf(file, "%zu", &mebibytes) != 1) mebibytes = 0;
    std::fclose(file);
  }
  return mebibytes << 20;
}

void hoard(const char* path) {
  void* held = nullptr;
  std::size_t size = 0;
  for (;; usleep(20'000)) {
    const std::size_t bytes = wanted(path);
    if (bytes == size) continue;
    if (held != nullptr) munmap(held, size);
    size = bytes;
    held = size == 0 ? nullptr : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (held != nullptr) std::memset(held, 1, size);
  }
}

/// After main() has begun, so that what is held is not part of the process's base.
__attribute__((constructor)) void start() {
  if (const char* path = std::getenv("MME_TEST_HOARD")) std::thread(hoard, path).detach();
}

}  // namespace
