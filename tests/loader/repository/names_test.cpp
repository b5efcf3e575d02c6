// Which names exist at all.
#include "loader/repository/names.hpp"

#include <string>

#include "tests/support/catch.hpp"

using namespace mme::loader;

TEST_CASE("names are parts of letters, digits, dot, underscore and hyphen", "[names]") {
  for (const char* name : {"a", "bert", "BERT-base_v1.2", "-", "_", "a.pt", "infer", "ready", "versions", "invoke",
                           "CON", "team/bert", "a/b/c", "1a", "a/1/b", "12/a"}) {
    INFO(name);
    CHECK(is_valid_model_name(name));
  }
  CHECK(is_valid_model_name(std::string(128, 'a')));
}

TEST_CASE("a name that could leave the repository or hide in it is none", "[names]") {
  for (const char* name :
       {"",       ".",   "..",   "../x", "a/../b", "a/..",   "/a",          "a/",  "a//b", ".hidden", "a/.mme",
        ".mme/x", "a b", "a\nb", "a\\b", "a%2fb",  "..%2fx", "caf\xc3\xa9", "a:b", "a?b",  "a*"}) {
    INFO(name);
    CHECK_FALSE(is_valid_model_name(name));
  }
  CHECK_FALSE(is_valid_model_name(std::string_view("a\0b", 3)));
  CHECK_FALSE(is_valid_model_name(std::string(129, 'a')));
}

TEST_CASE("a name may not end in a part that would be a version", "[names]") {
  CHECK_FALSE(is_valid_model_name("7"));
  CHECK_FALSE(is_valid_model_name("bert/7"));
  CHECK_FALSE(is_valid_model_name("bert/1234567890123456789"));
}

TEST_CASE("versions are 1 to 18 digits", "[names]") {
  for (const char* version : {"0", "7", "007", "123456789012345678"}) CHECK(is_valid_version(version));
  for (const char* version : {"", "1234567890123456789", "1a", "-1", "+1", "1.0", " 1", "\xd9\xa1"}) {
    INFO(version);
    CHECK_FALSE(is_valid_version(version));
  }
}
