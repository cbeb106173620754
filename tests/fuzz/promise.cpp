#include "promise.h"

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace moeplan::fuzz {

void require(bool holds, const char* message) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", message);
  std::abort();
}

void taken_or_refused(const std::function<void()>& read, std::size_t most_faults) {
  try {
    read();
  } catch (const base::Error& error) {
    require(!error.faults().empty(), "an error has faults");
    require(error.faults().size() <= most_faults, "faults are bounded");
    for (const base::Fault& fault : error.faults()) {
      require(!fault.message.empty(), "a fault says something");
      const std::string text = base::format_fault(fault);
      try {
        base::require_utf8(text, "message");
      } catch (const base::Error&) {
        require(false, "messages are valid UTF-8");
      }
    }
  }
}

}  // namespace moeplan::fuzz
