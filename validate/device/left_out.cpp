#include "left_out.h"

#include <new>
#include <stdexcept>

namespace moeplan::device {

void write_left_out(LineWriter& writer, const std::string& what, const std::string& why) {
  writer.write("left_out", JsonObject().add("what", what).add("why", why));
}

bool attempt(LineWriter& writer, const std::string& what, const std::function<void()>& measurement,
             const std::function<std::string()>& lost) {
  std::string why;
  try {
    measurement();
    return true;
  } catch (const std::bad_alloc&) {
    why = "too little memory for it";
  } catch (const std::exception& error) {
    why = error.what();
  }
  write_left_out(writer, what, why);
  const std::string gone = lost();
  if (!gone.empty()) throw std::runtime_error("the device can be used no more: " + gone + "; the last of it: " + why);
  return false;
}

}  // namespace moeplan::device
