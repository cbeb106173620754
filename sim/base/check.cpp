#include "base/check.h"

#include <string>

namespace moeplan::base {

void check_failed(const char* file, int line, const char* expression, const std::string& message) {
  // The base name only: the text must not depend on where the program was built.
  std::string name = file;
  const std::size_t slash = name.rfind('/');
  if (slash != std::string::npos) name.erase(0, slash + 1);
  throw InternalError("internal error at " + name + ":" + std::to_string(line) + ": " + message + " (" + expression +
                      ")");
}

}  // namespace moeplan::base
