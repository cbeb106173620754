#pragma once
#include <stdexcept>
#include <string>

namespace moeplan::base {

// An invariant of ours did not hold: a bug of the program, never of its input. main() ends with status 3.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& message);

}  // namespace moeplan::base

// Stays on in release builds. Must not be reachable by any input.
#define MOEPLAN_CHECK(condition, message) \
  ((condition) ? static_cast<void>(0) : ::moeplan::base::check_failed(__FILE__, __LINE__, #condition, (message)))
