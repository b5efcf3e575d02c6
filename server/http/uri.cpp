// Percent-decoding, once, of path segments and queries.
// Does not resolve "." and "..", does not join or normalise.
#include "server/http/uri.hpp"

#include <algorithm>
#include <optional>

#include "loader/guards.hpp"
#include "server/codecs/json_writer.hpp"

namespace mme::server {
namespace {

std::optional<unsigned> hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

Result<std::string> decode(std::string_view encoded, bool plus_is_space) {
  std::string out;
  out.reserve(encoded.size());
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      out.push_back(plus_is_space && encoded[i] == '+' ? ' ' : encoded[i]);
      continue;
    }
    const auto high = i + 1 < encoded.size() ? hex_digit(encoded[i + 1]) : std::nullopt;
    const auto low = i + 2 < encoded.size() ? hex_digit(encoded[i + 2]) : std::nullopt;
    if (!high || !low) return fail(ErrorCode::invalid_request, "the request target has a broken percent escape");
    out.push_back(static_cast<char>(*high << 4 | *low));
    i += 2;
  }
  if (loader::guard("decoded_control_characters") && std::any_of(out.begin(), out.end(), is_control)) {
    return fail(ErrorCode::invalid_request, "the request target encodes a control character");
  }
  if (loader::guard("decoded_utf8") && !is_utf8(out)) {
    return fail(ErrorCode::invalid_request, "the request target is not UTF-8");
  }
  return out;
}

}  // namespace

Result<std::string> decode_segment(std::string_view encoded) {
  return decode(encoded, false);
}

Result<Headers> decode_query(std::string_view query) {
  Headers pairs;
  while (!query.empty()) {
    const auto pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    auto key = decode(pair.substr(0, equals), true);
    if (!key) return key.error();
    auto value = decode(equals == pair.npos ? std::string_view{} : pair.substr(equals + 1), true);
    if (!value) return value.error();
    pairs.emplace_back(std::move(*key), std::move(*value));
  }
  return pairs;
}

std::vector<std::string_view> split_path(std::string_view path) {
  std::vector<std::string_view> segments;
  while (!path.empty()) {
    path.remove_prefix(1);  // the '/'
    segments.push_back(path.substr(0, path.find('/')));
    path.remove_prefix(segments.back().size());
  }
  return segments;
}

}  // namespace mme::server
