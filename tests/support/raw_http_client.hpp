// A client that sends exactly the bytes it is told to and takes answers apart by their framing.
// Blocking, one thread, for tests only: it never corrects what it sends and never retries.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mme::test {

struct RawReply {
  unsigned status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  /// Empty when there is none; names compared without case.
  [[nodiscard]] std::string header(std::string_view name) const;
};

class RawHttpClient {
 public:
  /// Connects to 127.0.0.1. `patience`: longest wait for one read.
  explicit RawHttpClient(std::uint16_t port, std::chrono::milliseconds patience = std::chrono::seconds(30));
  ~RawHttpClient();
  RawHttpClient(RawHttpClient&& other) noexcept;
  RawHttpClient(const RawHttpClient&) = delete;
  RawHttpClient& operator=(const RawHttpClient&) = delete;

  /// False when the server has closed.
  bool send(std::string_view bytes);
  /// No more from us; answers can still be read.
  void half_close();
  /// Closes with a reset, as a killed client does.
  void reset();
  void close();

  /// One whole answer, 1xx included; nullopt when the connection ends or falls silent before it is complete.
  /// `head`: the answer is to HEAD and has no body.
  std::optional<RawReply> read(bool head = false);
  /// Of the next answer; 0 and empty when none comes.
  unsigned read_status(bool head = false);
  std::string read_body();
  /// All answers until the connection ends or falls silent for `quiet`.
  std::vector<RawReply> read_all(std::chrono::milliseconds quiet);

  /// True when the server closes within the patience; drops what comes before.
  bool closed();
  /// True when the connection ended by a reset instead of a proper close.
  [[nodiscard]] bool was_reset() const noexcept { return reset_; }
  /// Bytes that came and belong to no answer.
  [[nodiscard]] const std::string& rest() const noexcept { return buffer_; }
  [[nodiscard]] int descriptor() const noexcept { return fd_; }

 private:
  bool fill(std::chrono::milliseconds patience);
  std::optional<RawReply> take(bool head);

  int fd_ = -1;
  bool ended_ = false;
  bool reset_ = false;
  std::chrono::milliseconds patience_;
  std::string buffer_;
  std::string sent_;  ///< the beginning of it: what may come back in an error
};

}  // namespace mme::test
