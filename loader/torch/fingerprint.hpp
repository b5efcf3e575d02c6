// A 64-bit hash for guesses (FNV-1a): whatever it makes equal is compared before anything rests on it.
// Pure; not for digests that outlive the process.
#pragma once

#include <cstdint>
#include <string_view>

namespace mme::loader {

class Fingerprint {
 public:
  void add(std::string_view text) noexcept {
    for (const char letter : text) mix(static_cast<unsigned char>(letter));
  }
  void add(std::uint64_t number) noexcept {
    for (int byte = 0; byte < 8; ++byte) mix(static_cast<unsigned char>(number >> (8 * byte)));
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  void mix(unsigned char byte) noexcept { value_ = (value_ ^ byte) * 0x100000001b3U; }
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace mme::loader
