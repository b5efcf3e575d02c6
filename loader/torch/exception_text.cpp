#include "loader/torch/exception_text.hpp"

#include <c10/util/Exception.h>

#include <exception>

#include "loader/torch/error_text.hpp"

namespace mme::loader {

std::string current_exception_text() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return one_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return one_line(error.what());
  } catch (...) {
    return "an unknown exception";
  }
}

}  // namespace mme::loader
