// The code of an archive in one form, whoever wrote it: two models share compiled code exactly when their texts are
// equal. Pure text; knows no libtorch.
#pragma once

#include <string>
#include <string_view>

namespace mme::loader {

/// The lines `name : Final[type] = value` of a class sorted where they stand next to each other: writers put them in
/// the order of a hash table, which differs from process to process and means nothing.
[[nodiscard]] std::string with_sorted_finals(std::string_view code);

/// Collects what compiled code depends on. Each part is preceded by its name and size, so that no two lists of parts
/// have one text.
class CodeText {
 public:
  void add(std::string_view name, std::string_view bytes);
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] std::string take() noexcept { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace mme::loader
