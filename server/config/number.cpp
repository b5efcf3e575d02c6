#include "server/config/number.hpp"

#include <charconv>
#include <string>

#include "loader/guards.hpp"

namespace mme::server {
namespace {

using loader::ErrorCode;
using loader::fail;
using loader::Result;

Result<std::uint64_t> parse_digits(std::string_view digits) {
  if (digits.empty()) return fail(ErrorCode::invalid_request, "not a number");
  if (loader::guard("octal_numbers") && digits.size() > 1 && digits.front() == '0') {
    return fail(ErrorCode::invalid_request, "a number must not begin with 0, it looks octal");
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{}) return fail(ErrorCode::invalid_request, "the number is too large");
  return number;
}

std::size_t count_digits(std::string_view text) {
  const std::size_t end = text.find_first_not_of("0123456789");
  return end == std::string_view::npos ? text.size() : end;
}

}  // namespace

Result<std::uint64_t> parse_number(std::string_view text) {
  if (text.empty()) return fail(ErrorCode::invalid_request, "has no value");
  if (count_digits(text) != text.size()) return fail(ErrorCode::invalid_request, "not a plain number of digits");
  return parse_digits(text);
}

Result<NumberWithUnit> split_unit(std::string_view text) {
  if (text.empty()) return fail(ErrorCode::invalid_request, "has no value");
  const std::size_t digits = count_digits(text);
  const auto number = parse_digits(text.substr(0, digits));
  if (!number) return number.error();
  return NumberWithUnit{*number, text.substr(digits)};
}

}  // namespace mme::server
